//! The family of memory that home shards hold.

use super::families::Families;
use broker::home::HomeStatistics;

/// Memory of home shards by component.
pub fn write(families: &mut Families, home: &HomeStatistics) {
    let parts = [
        ("topics", home.topics_bytes),
        ("log", home.log_bytes),
        ("log_index", home.index_bytes),
        ("retained", home.retained_bytes),
        ("publish_once", home.dedup_bytes),
    ];
    families.gauges("crore_stored_bytes", "Memory of home shards by component.", "part", &parts);
}
