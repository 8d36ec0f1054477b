//! TCP counters from `/proc/net/snmp` and `/proc/net/netstat`: a line of names, then a line of values, per protocol.

use std::path::Path;

use crate::file;
use crate::reading::Tcp;

pub(crate) fn read(proc: &Path) -> Tcp {
    let snmp = file::text(&proc.join("net/snmp")).unwrap_or_default();
    let netstat = file::text(&proc.join("net/netstat")).unwrap_or_default();
    Tcp {
        sent_segments: value(&snmp, "Tcp:", "OutSegs"),
        retransmitted_segments: value(&snmp, "Tcp:", "RetransSegs"),
        received_segments: value(&snmp, "Tcp:", "InSegs"),
        receive_errors: value(&snmp, "Tcp:", "InErrs"),
        timeouts: value(&netstat, "TcpExt:", "TCPTimeouts"),
    }
}

/// The value below `name` in the two lines that begin with `protocol`.
fn value(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(protocol)).then_some(words)
    });
    let column = lines.next()?.position(|word| word == name)?;
    lines.next()?.nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs InErrs\nTcp: 1 -1 500 600 7 2\nUdp: OutSegs\nUdp: 9\n";

    #[test]
    fn a_value_is_taken_from_the_column_of_its_name_and_protocol() {
        assert_eq!(value(SNMP, "Tcp:", "OutSegs"), Some(600));
        assert_eq!(value(SNMP, "Tcp:", "RetransSegs"), Some(7));
        assert_eq!(value(SNMP, "Udp:", "OutSegs"), Some(9));
    }

    #[test]
    fn a_missing_column_a_negative_value_and_half_a_file_are_none() {
        assert_eq!(value(SNMP, "Tcp:", "NoSuchName"), None);
        assert_eq!(value(SNMP, "Tcp:", "MaxConn"), None);
        assert_eq!(value(SNMP, "TcpExt:", "TCPTimeouts"), None);
        assert_eq!(value("Tcp: InSegs OutSegs\nTcp: 5", "Tcp:", "OutSegs"), None);
        assert_eq!(value("Tcp: InSegs", "Tcp:", "InSegs"), None);
    }
}
