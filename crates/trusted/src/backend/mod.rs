//! Ways to reach a trusted device. Each proves something different about who cannot tamper with it.
//!
//! | backend | withstands | does not withstand |
//! | --- | --- | --- |
//! | [`in_process`] | bugs in the protocol, malicious messages | anyone who controls the process |

pub mod in_process;
