package reconcile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// releaseTime is how long a guest may take to release a card before the status shows a problem. The guest is asked
// again and again, and may release the card later.
const releaseTime = 30 * time.Second

// cards plugs in network cards, and unplugs cards that are no longer wanted.
//
// The runner opens the tap and passes its descriptors to QEMU, as at the start of the machine. The ID of the card
// contains its port, a hash of its properties and its hardware address, which identifies it. A backend without a card
// is left over from plugging in or unplugging; it is removed together with its tap, and a wanted card is then plugged
// in again.
//
// See docs/decisions/0196-network-cards.md.
type cards struct {
	dialogue
	pace
	rule   plan.NICs
	keeper *keeper
	drives *drives // which share the ports; nil if the machine has none

	want    []Card
	known   bool
	asked   bool // something has happened since the last query
	opening bool
	have    []pluggedCard
	jobs    map[string]*cardJob // by hardware address
	links   map[string]bool     // the last link state that was set, by hardware address; true is up
	fault   string              // why have is unknown
}

// cardJob is the work on a card, and its result.
type cardJob struct {
	pace
	attempts int
	began    time.Time // of unplugging
	failed   bool
	message  string
}

func newCards(r plan.NICs, k *keeper, start Start) *cards {
	return &cards{
		rule: r, keeper: k, known: !start.Running && !start.Arriving && !start.Cards,
		jobs: map[string]*cardJob{}, links: map[string]bool{},
	}
}

func (c *cards) nextStep(want *Desired, now time.Time) {
	if want.Cards == nil || c.isBusy() || c.opening {
		return
	}
	if !reflect.DeepEqual(want.Cards, c.want) {
		c.want, c.pace, c.jobs = slices.Clone(want.Cards), pace{}, map[string]*cardJob{}
	}
	if !c.known {
		if c.isReady(now) {
			c.queryCards()
		}
		return
	}
	for _, p := range c.have {
		switch j := c.jobOf(p.mac); {
		case !j.isReady(now):
		case !p.device:
			c.removeBackend(p, j)
		case c.wantedCard(p.mac) == nil:
			c.unplugCard(p, j, now)
		}
		if c.isBusy() {
			return
		}
	}
	for _, w := range c.want {
		j, p := c.jobOf(w.MAC), c.findCard(w.MAC)
		switch up, set := c.links[w.MAC]; {
		case !j.isReady(now):
		case p == nil:
			c.openCard(w, j, now)
		case p.device && (!set || up == w.Down):
			c.setLink(w, *p, j)
		}
		if c.isBusy() || c.opening {
			return
		}
	}
}

func (c *cards) jobOf(mac string) *cardJob {
	if c.jobs[mac] == nil {
		c.jobs[mac] = &cardJob{}
	}
	return c.jobs[mac]
}

func (c *cards) wantedCard(mac string) *Card {
	i := slices.IndexFunc(c.want, func(w Card) bool { return w.MAC == mac })
	if i < 0 {
		return nil
	}
	return &c.want[i]
}

func (c *cards) findCard(mac string) *pluggedCard {
	i := slices.IndexFunc(c.have, func(p pluggedCard) bool { return p.mac == mac })
	if i < 0 {
		return nil
	}
	return &c.have[i]
}

// queryCards asks for the plugged cards.
func (c *cards) queryCards() {
	c.asked = false
	c.sendBatch(func(answers []answer, now time.Time) {
		have, err := readCards(answers)
		if err != nil {
			c.fault = fmt.Sprintf("query the network cards: %v", err)
			c.delayNext(now)
			return
		}
		c.fault, c.known, c.have = "", !c.asked, have
		c.forgetFailures()
		c.lookAt(now.Add(leastPause), now) // the guest may reset itself as often as it likes
		var macs []string
		for _, p := range have {
			macs = append(macs, p.mac)
		}
		for _, w := range c.want {
			macs = append(macs, w.MAC)
		}
		c.keeper.keepOnly(macs)
	}, listCards()...)
}

// freePlaces returns the free ports, the last first: disks use the first ports first.
func (c *cards) freePlaces() (free []int) {
	for place, bus := range slices.Backward(c.rule.Buses) {
		taken := slices.ContainsFunc(c.have, func(p pluggedCard) bool { return p.place == place })
		if !taken && !c.drives.usesBus(bus) {
			free = append(free, place)
		}
	}
	return free
}

// usesBus reports whether a disk is in a port.
func (d *drives) usesBus(bus string) bool {
	return d != nil && slices.ContainsFunc(d.have, func(p plugged) bool {
		return !p.cd && p.place < len(d.rule.Buses) && d.rule.Buses[p.place] == bus
	})
}

// usesBus reports whether a network card is in a port.
func (c *cards) usesBus(bus string) bool {
	return c != nil && slices.ContainsFunc(c.have, func(p pluggedCard) bool {
		return p.place < len(c.rule.Buses) && c.rule.Buses[p.place] == bus
	})
}

// openCard opens the tap of a card, if it has one, and then plugs the card in.
func (c *cards) openCard(w Card, j *cardJob, now time.Time) {
	free := c.freePlaces()
	if len(free) == 0 {
		j.noteFailure(fmt.Sprintf("all %d places for devices attached while the guest runs are taken; the network is available "+
			"after a restart of the VM", len(c.rule.Buses)), now)
		return
	}
	place := free[j.attempts%len(free)] // a user may have plugged something in
	c.opening = true
	c.keeper.openCard(w, place, func(open OpenCard, err error, now time.Time) bool {
		c.opening = false
		if err != nil {
			j.noteFailure("plug in the network card: "+err.Error(), now)
			return false
		}
		c.plugCard(w, place, j, open)
		return true
	})
}

// plugCard adds a backend and its card.
func (c *cards) plugCard(w Card, place int, j *cardJob, open OpenCard) {
	p := PlugOf(c.rule, w, place, open)
	j.attempts++
	c.sendBatch(func(answers []answer, now time.Time) {
		c.known, c.pace = false, pace{} // the guest has not caused it
		err := firstError(answers[len(p.Clear):])
		if err == nil {
			c.links[w.MAC] = !w.Down
			*j = cardJob{}
			return
		}
		j.noteFailure(fmt.Sprintf("plug in the network card: %v", err), now)
		c.sendBatch(func([]answer, time.Time) { c.keeper.releaseCard(w.MAC) }, p.Undo...)
	}, slices.Concat(p.Clear, p.Do)...)
}

// unplugCard asks the guest to release a card. The request is repeated, because a guest that is still starting does
// not notice it.
func (c *cards) unplugCard(p pluggedCard, j *cardJob, now time.Time) {
	if j.began.IsZero() {
		j.began = now
	}
	c.sendBatch(func(answers []answer, now time.Time) {
		c.known = false
		if err := answers[0].err; err != nil && !strings.Contains(err.Error(), "already in the process of unplug") {
			j.noteFailure(fmt.Sprintf("unplug the network card: %v", err), now)
			return
		}
		switch waited := now.Sub(j.began); {
		case waited >= releaseTime:
			j.failed = true
			j.message = fmt.Sprintf("the guest has not released the network card for %d seconds; it stays plugged in until the "+
				"guest releases it, or until the VM is reset or stopped", int(waited.Seconds()))
		case !j.failed:
			j.message = "waiting for the guest to release the network card"
		}
		j.pause = min(max(2*j.pause, firstUnplug), lastUnplug)
		j.lookAt(now.Add(j.pause), now)
	}, commandOf("device_del", map[string]any{"id": p.id(cardPrefix)}))
}

// removeBackend removes the backend of a card that the guest has released, and its tap.
func (c *cards) removeBackend(p pluggedCard, j *cardJob) {
	commands := append([]qmp.Command{commandOf("netdev_del", map[string]any{"id": p.id(backendPrefix)})},
		forgetDescriptors(p.mac)...)
	c.sendBatch(func(answers []answer, now time.Time) {
		c.known = false
		if err := answers[0].err; err != nil {
			j.noteFailure("remove the network behind the card: "+err.Error(), now)
			return
		}
		delete(c.jobs, p.mac)
		delete(c.links, p.mac)
		c.keeper.releaseCard(p.mac)
	}, commands...)
}

// setLink connects a card to its network, or disconnects it.
func (c *cards) setLink(w Card, p pluggedCard, j *cardJob) {
	c.sendBatch(func(answers []answer, now time.Time) {
		if err := answers[0].err; err != nil {
			c.known = false // it may have been unplugged
			j.noteFailure(fmt.Sprintf("set the link %s: %v", linkWord(!w.Down), err), now)
			return
		}
		c.links[w.MAC] = !w.Down
		*j = cardJob{}
	}, linkCommand(p.id(cardPrefix), !w.Down))
}

func (j *cardJob) noteFailure(message string, now time.Time) {
	j.message, j.failed = message, true
	j.delayNext(now)
}

func (c *cards) observeEvent(e event, now time.Time) {
	p, is := parseCard(cardPrefix, e.data.Device)
	switch {
	case e.name == "RESET": // QEMU completes pending removals
	case e.name == "DEVICE_DELETED" && is:
		c.jobOf(p.mac).pace = pace{}
	case e.name == "DEVICE_UNPLUG_GUEST_ERROR" && is:
		j := c.jobOf(p.mac)
		j.message = "the guest refuses to release the network card, which stays plugged in; it is asked again"
		j.failed, j.pause = true, max(j.pause, firstUnplug)
		j.lookAt(now.Add(j.pause), now)
	default:
		return
	}
	c.doubtState()
}

// doubtState schedules a new query, even if a query is in progress.
func (c *cards) doubtState() { c.known, c.asked = false, true }

func (c *cards) wakeTime() time.Time {
	if !c.known {
		return c.at
	}
	var first time.Time
	for mac, j := range c.jobs {
		p, w := c.findCard(mac), c.wantedCard(mac)
		open := (p == nil) != (w == nil) || p != nil && !p.device
		if set, is := c.links[mac]; p != nil && w != nil && (!is || set == w.Down) {
			open = true
		}
		if open && !j.at.IsZero() && (first.IsZero() || j.at.Before(first)) {
			first = j.at
		}
	}
	return first
}

func (c *cards) reportFacts(f *Facts) {
	f.addProblem("vm.network", c.fault)
	for _, w := range c.want {
		f.NICs = append(f.NICs, c.factOf(w, f))
	}
	for _, p := range c.have {
		if c.wantedCard(p.mac) != nil {
			continue
		}
		j := c.jobOf(p.mac)
		if j.failed {
			f.addProblem("vm.network", fmt.Sprintf("card %s: %s", p.mac, j.message))
		}
		f.NICs = append(f.NICs, status.NIC{MAC: p.mac, State: status.NICUnplugging, Message: j.message})
	}
}

// factOf returns the state of a wanted card.
func (c *cards) factOf(w Card, f *Facts) status.NIC {
	j, p := c.jobOf(w.MAC), c.findCard(w.MAC)
	fact := status.NIC{MAC: w.MAC, State: status.NICPlugging, Message: j.message}
	switch {
	case p != nil && p.device:
		fact.State = status.NICPlugged
		if p.mark != w.identityMark() {
			fact.Message = "it is plugged in with another configuration; this is changed by a restart of the VM, or by removing the " +
				"network from vm.network and adding it again when it is unplugged"
		} else if !j.failed {
			fact.Message = ""
		}
		f.addProblem(w.Path(), fact.Message)
	case j.failed:
		fact.State = status.NICFailed
		f.addProblem(w.Path(), j.message)
	}
	return fact
}
