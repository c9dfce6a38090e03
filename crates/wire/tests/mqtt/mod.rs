//! Support for the tests of the MQTT codec; the fuzz targets share it.

// Each test binary uses some of these functions.
#![allow(dead_code)]

pub mod bytes;
pub mod rebuild;
pub mod vectors;
