//! An authority that signs certificates of clients and revokes them, by `openssl ca`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::assert_success;

/// Profiles of certificates. A request's subject is taken as it is.
const CONFIGURATION: &str = "
[req]
distinguished_name = subject
prompt = no
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[list]
authorityKeyIdentifier = keyid:always
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
[client_of_alternative_name]
basicConstraints = critical, CA:FALSE
subjectAltName = URI:urn:device:7
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
[ca]
default_ca = default
[default]
dir = DIR
database = $dir/index.txt
new_certs_dir = $dir
serial = $dir/serial
rand_serial = yes
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
default_days = 10
default_crl_days = 10
crlnumber = $dir/crlnumber
crl_extensions = list
unique_subject = no
policy = any
[any]
commonName = optional
organizationName = optional
";

/// An authority; its files are in a folder of their own.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
}

/// The files of a certificate and its key.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Identity {
    /// Flags of `openssl s_client`.
    pub fn flags(&self) -> [&str; 4] {
        ["-cert", &self.certificate, "-key", &self.key]
    }
}

impl Authority {
    /// Makes an authority in this folder, which is made, too.
    pub fn new(folder: PathBuf) -> Authority {
        fs::create_dir(&folder).expect("the folder above is ours");
        let text = CONFIGURATION.replace("DIR", &folder.display().to_string());
        fs::write(folder.join("ca.cnf"), text).expect("the folder is ours");
        fs::write(folder.join("index.txt"), "").expect("the folder is ours");
        fs::write(folder.join("crlnumber"), "01\n").expect("the folder is ours");
        let authority = Authority { folder };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-config",
            "ca.cnf",
            "-extensions",
            "authority",
            "-days",
            "10",
            "-subj",
            "/CN=authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        authority
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Signs a certificate of a client with this common name.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(name, &format!("/CN={name}"), &["-extensions", "client"])
    }

    /// Signs a certificate without a common name, whose alternative name is `urn:device:7`.
    pub fn client_of_alternative_name(&self) -> Identity {
        let flags = ["-extensions", "client_of_alternative_name"];
        self.sign("alternative", "/O=devices", &flags)
    }

    /// Signs a certificate of a client that has expired.
    pub fn expired(&self, name: &str) -> Identity {
        let times = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"];
        let flags = [&["-extensions", "client"][..], &times].concat();
        self.sign(&format!("{name}-expired"), &format!("/CN={name}"), &flags)
    }

    /// Signs a certificate that is for servers only.
    pub fn server(&self, name: &str) -> Identity {
        self.sign(&format!("{name}-server"), &format!("/CN={name}"), &["-extensions", "server"])
    }

    /// Writes the list of revoked certificates, with one more.
    pub fn revoke(&self, identity: &Identity) -> PathBuf {
        self.openssl(&["ca", "-config", "ca.cnf", "-revoke", &identity.certificate]);
        self.list()
    }

    /// Writes the list of revoked certificates.
    pub fn list(&self) -> PathBuf {
        self.openssl(&["ca", "-config", "ca.cnf", "-gencrl", "-out", "crl.pem"]);
        self.folder.join("crl.pem")
    }

    fn sign(&self, file: &str, subject: &str, flags: &[&str]) -> Identity {
        let of = |suffix: &str| format!("{file}.{suffix}");
        let (request, certificate, key) = (of("csr"), of("pem"), of("key"));
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-config",
            "ca.cnf",
            "-subj",
            subject,
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        let sign = ["ca", "-batch", "-notext", "-config", "ca.cnf", "-in", &request];
        self.openssl(&[&sign[..], &["-out", &certificate], flags].concat());
        let path = |file: &str| text(&self.folder.join(file));
        Identity { certificate: path(&certificate), key: path(&key) }
    }

    fn openssl(&self, arguments: &[&str]) {
        assert_success(Command::new("openssl").args(arguments).current_dir(&self.folder));
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of a test is text").to_owned()
}
