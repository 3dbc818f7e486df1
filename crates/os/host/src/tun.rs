use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Why no TAP device can be made, and what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("/dev/net/tun cannot be opened: {}; {}", io::Error::from(*.0), self.remedy())]
pub struct TunError(pub Errno);

impl TunError {
    fn remedy(self) -> &'static str {
        match self.0 {
            Errno::ACCESS => {
                "only root may here: 'sudo chmod 666 /dev/net/tun' allows it to all users"
            }
            Errno::NOENT => {
                "it is missing: 'sudo modprobe tun' brings it, and a container needs it from \
                 outside (--device /dev/net/tun)"
            }
            Errno::NXIO | Errno::NODEV => "the module is not loaded: 'sudo modprobe tun'",
            Errno::PERM => "a container keeps it away: start that with --device /dev/net/tun",
            _ => "run this as root",
        }
    }
}

/// Opens the file of which a TAP device is made.
pub fn open_tun() -> Result<OwnedFd, TunError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(TunError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_tap_devices_fits_the_cause() {
        for (error, advice) in [
            (Errno::ACCESS, "chmod 666"),
            (Errno::NOENT, "modprobe tun"),
            (Errno::NODEV, "modprobe tun"),
            (Errno::PERM, "--device /dev/net/tun"),
        ] {
            let text = TunError(error).to_string();
            assert!(
                text.starts_with("/dev/net/tun cannot be opened: "),
                "{text}"
            );
            assert!(text.contains(advice), "{text}");
        }
    }
}
