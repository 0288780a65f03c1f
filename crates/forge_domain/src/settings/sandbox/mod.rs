//! The sandbox of commands: what YAML says of it, what follows from that, and what a failed command's output
//! says of it.

mod denial;
mod policy;
mod settings;
mod values;

pub use denial::Denial;
pub use policy::{SandboxAccess, SandboxPlaces, SandboxPolicy};
pub use settings::{Sandbox, SandboxMissing, SandboxMode};
pub use values::{MemorySize, SandboxHost, SandboxNetwork, SandboxPath, SandboxValueError};
