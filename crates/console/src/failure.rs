//! What a command can come to, and the exit codes that scripts rely on.

use pentarchy_cluster::config::ConfigError;
use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// What was asked about is not well; said already, in the command's own output.
    NotWell,
    /// As [`Self::NotWell`], with the one line that says so.
    Unwell(String),
    /// The operator can mend it: an option, a file, a port.
    Usage(String),
    /// Neither: the machine or this program.
    Internal(String),
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// 1 the thing asked about is not well, 2 usage, 3 internal.
    pub const fn code(&self) -> u8 {
        match self {
            Self::NotWell | Self::Unwell(_) => 1,
            Self::Usage(_) => 2,
            Self::Internal(_) => 3,
        }
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Self::NotWell) {
            crate::output::complain(&self.to_string());
        }
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWell => Ok(()),
            Self::Unwell(text) | Self::Usage(text) | Self::Internal(text) => f.write_str(text),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}
