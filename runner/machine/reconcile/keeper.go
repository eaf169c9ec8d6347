package reconcile

import (
	"slices"
	"time"
)

// A CardWish asks the caller of Next to open the tap of a card, if it has one, and to record that the card is in a
// port. The caller passes the result to CardOpened.
type CardWish struct {
	Card Card
	// Place is the index of the port in the rule's buses.
	Place int
	// Number identifies the wish.
	Number int
}

// keeper requests the opening and closing of taps, which may take long.
type keeper struct {
	asked    []CardWish // not in a Step yet
	released []string   // hardware addresses, not in a Step yet
	kept     [][]string // hardware addresses, not in a Step yet
	last     int
	then     func(OpenCard, error, time.Time) bool // of the wish with the number last; nil if it was answered
}

func (k *keeper) openCard(c Card, place int, then func(OpenCard, error, time.Time) bool) {
	k.last++
	k.asked, k.then = append(k.asked, CardWish{Card: c, Place: place, Number: k.last}), then
}

// releaseCard requests that the tap of a card is closed, and that its port is forgotten.
func (k *keeper) releaseCard(mac string) { k.released = append(k.released, mac) }

// keepOnly requests the same for all cards except some. An earlier runner may have been killed before QEMU knew a card.
func (k *keeper) keepOnly(macs []string) { k.kept = append(k.kept, slices.Clone(macs)) }

// drainInto moves the requests to a step.
func (k *keeper) drainInto(s *Step) {
	s.Cards, s.Released, s.Kept = k.asked, k.released, k.kept
	k.asked, k.released, k.kept = nil, nil, nil
}

// noteOpened processes the result of a wish, and reports whether a request now contains the descriptors.
func (k *keeper) noteOpened(w CardWish, open OpenCard, err error, now time.Time) bool {
	then := k.then
	if w.Number != k.last || then == nil {
		return false // the question is from an earlier connection to QEMU
	}
	k.then = nil
	return then(open, err, now)
}
