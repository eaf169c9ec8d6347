package drive

import (
	"time"

	"vmop/runner/machine"
)

// keepCards opens and closes the taps of network cards, in the order of the actions: the opening of a tap also closes
// an earlier tap of the same card.
func (d *Driver) keepCards(action machine.Action) {
	before, done := d.cardsDone, make(chan struct{})
	d.cardsDone = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		switch a := action.(type) {
		case machine.OpenCard:
			open, err := d.cfg.Cards.Open(d.closed, a.Card, a.Place)
			told := d.callBetweenSteps(d.closed, func(now time.Time) { d.state.CardOpened(a, open, err, now) })
			if !told {
				for _, f := range open.Files() {
					_ = f.Close()
				}
			}
		case machine.ReleaseCard:
			d.cfg.Cards.Release(a.MAC)
		case machine.KeepCards:
			d.cfg.Cards.KeepOnly(a.MACs)
		}
	}()
}
