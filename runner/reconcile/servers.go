package reconcile

import (
	"slices"
	"time"
)

// servers are the web servers of media. QEMU opens an address in its main thread, and
// for up to five seconds nothing else happens, the guest included, if the server takes
// the connection and then says nothing. So it is found out first whether the server
// answers.
//
// See docs/decisions/0052-slow-servers.md.
type servers struct {
	asked   []string // that were not asked for by a Step yet
	waiting []inquiry
}

type inquiry struct {
	address string
	then    func(err error, now time.Time)
}

// query finds out whether the server of a web address answers.
func (s *servers) query(address string, then func(err error, now time.Time)) {
	s.asked = append(s.asked, address)
	s.waiting = append(s.waiting, inquiry{address, then})
}

func (s *servers) drain() []string {
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *servers) answered(address string, err error, now time.Time) {
	i := slices.IndexFunc(s.waiting, func(q inquiry) bool { return q.address == address })
	if i < 0 {
		return // an earlier connection with QEMU has asked
	}
	then := s.waiting[i].then
	s.waiting = slices.Delete(s.waiting, i, i+1)
	then(err, now)
}
