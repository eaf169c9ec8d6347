package reconcile

import (
	"slices"
	"time"
)

// servers are the web servers of media. QEMU opens an address in its main thread. If the server accepts the
// connection and then stays silent, QEMU and the guest are blocked for up to five seconds. Therefore the server
// is tested first.
//
// See docs/decisions/0052-slow-servers.md.
type servers struct {
	asked   []string // not in a Step yet
	waiting []inquiry
}

type inquiry struct {
	address string
	then    func(err error, now time.Time)
}

// queryServer requests a test whether the server of a web address answers.
func (s *servers) queryServer(address string, then func(err error, now time.Time)) {
	s.asked = append(s.asked, address)
	s.waiting = append(s.waiting, inquiry{address, then})
}

func (s *servers) drainAddresses() []string {
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *servers) noteAnswer(address string, err error, now time.Time) {
	i := slices.IndexFunc(s.waiting, func(q inquiry) bool { return q.address == address })
	if i < 0 {
		return // the question is from an earlier connection to QEMU
	}
	then := s.waiting[i].then
	s.waiting = slices.Delete(s.waiting, i, i+1)
	then(err, now)
}
