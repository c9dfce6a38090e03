//! Writes the seeds of every target to `corpus/<target>/`.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    for (target, _) in fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in fuzz::seeds::seeds(target) {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
