package guest

import (
	"fmt"

	"vmop/qmp"
)

// sentinel resets the agent's parser, and precedes the reply to guest-sync-delimited. It never occurs in JSON
// text.
const sentinel = 0xFF

// synchroniseEnds resynchronises both ends, if necessary.
func (a *Agent) synchroniseEnds() error {
	if a.synced {
		return nil
	}
	if _, err := a.conn.Write([]byte{sentinel}); err != nil {
		return err
	}
	id, err := a.sendSync()
	if err != nil {
		return err
	}
	if _, err := a.awaitSync(id, false); err != nil {
		return err
	}
	a.synced = true
	return nil
}

func (a *Agent) sendSync() (id int64, err error) {
	return a.sendCommand(qmp.Command{
		Execute:   "guest-sync-delimited",
		Arguments: map[string]int64{"id": a.lastID + 1},
	})
}

// awaitSync skips everything up to the answer to the guest-sync-delimited with the id: junk, late replies, and
// answers to earlier synchronizations. With keep, it returns the skipped data, up to maxReply bytes.
func (a *Agent) awaitSync(id int64, keep bool) (skipped []byte, err error) {
	want := fmt.Sprint(id)
	for {
		junk, err := a.in.skipToSentinel(keep)
		if err != nil {
			return nil, err
		}
		if room := maxReply - len(skipped); keep && room > 0 {
			skipped = append(skipped, junk[:min(len(junk), room)]...)
		}
		line, err := a.in.readLine()
		if err != nil {
			if isMalformed(err) {
				continue // not an answer, so not ours
			}
			return nil, err
		}
		if r, err := parseReply(line); err == nil && r.Error == nil && string(r.Return) == want {
			return skipped, nil
		}
	}
}
