// Package keepalive ends TCP connections after their other end has vanished. A computer that was switched off, lost
// its network or went to sleep doesn't close its connections, and a screen or console that it showed would stay
// occupied for hours.
//
// A [Limit] creates listeners and dialers. The kernel monitors their connections in two ways: it probes an idle end
// (keep-alive), and it gives up if sent data isn't acknowledged (TCP_USER_TIMEOUT, tcp(7)). The second is necessary
// because the kernel sends no probes while it has data to retransmit. After the limit, a read or write fails with
// ETIMEDOUT. A live end stays connected, even if it is idle for a long time: its kernel answers, not its program.
//
// See docs/decisions/0103-vanished-viewers.md.
package keepalive
