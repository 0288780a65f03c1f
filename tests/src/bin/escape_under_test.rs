//! What a command inside a sandbox tries and a shell has no word for. It says `ESCAPED` where it succeeds.
#![allow(clippy::disallowed_methods, reason = "a program reads its arguments and its environment")]

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let (what, subject) = match arguments.as_slice() {
            [what, subject] => (what.as_str(), subject.as_str()),
            _ => ("", ""),
        };
        let tried = match what {
            "tcp" => TcpStream::connect(subject).and_then(|mut stream| stream.write_all(b"planted")),
            "udp" => udp(subject),
            "named" => UnixStream::connect(subject).and_then(|mut stream| stream.write_all(b"planted")),
            "abstract" => to_abstract(subject),
            "ptrace" => attach(subject),
            "proxy" => return ask_proxy(subject),
            _ => Err(std::io::ErrorKind::Unsupported.into()),
        };
        match tried {
            Ok(()) => println!("ESCAPED by {what}"),
            Err(error) => println!("{what} failed: {error}"),
        }
    }

    fn udp(address: &str) -> std::io::Result<()> {
        let unbound = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        UdpSocket::bind(unbound)?.send_to(b"planted", address)?;
        // Whoever listens in another network hears nothing of it: the test asks there.
        Err(std::io::Error::other("it was sent, perhaps to nobody"))
    }

    fn to_abstract(name: &str) -> std::io::Result<()> {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        UnixStream::connect_addr(&address)?.write_all(b"planted")
    }

    fn attach(id: &str) -> std::io::Result<()> {
        let id = id.parse().map_err(std::io::Error::other)?;
        Ok(nix::sys::ptrace::seize(nix::unistd::Pid::from_raw(id), nix::sys::ptrace::Options::empty())?)
    }

    /// Asks the proxy of the environment for an address, and prints what it answers.
    fn ask_proxy(url: &str) {
        let proxy = std::env::var("HTTP_PROXY").unwrap_or_default();
        let address = proxy.trim_start_matches("http://");
        let mut answer = String::new();
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            write!(stream, "GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")?;
            stream.read_to_string(&mut answer)
        });
        println!("{answer}");
        if let Err(error) = asked {
            println!("the proxy {address:?} cannot be asked: {error}");
        }
    }
}
