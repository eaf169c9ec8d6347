package vm

import "time"

// An outcome is what came of a step; nil means that it is done. What is neither
// done nor an outcome is an error: it is tried again.
type outcome interface{ isOutcome() }

// waiting is for something that happens without anybody's doing.
type waiting struct {
	reason, message string
	until           time.Time // when to look again if nothing is heard; zero: never
}

// stalled means that somebody has to change something.
type stalled struct{ reason, message string }

func (waiting) isOutcome() {}
func (stalled) isOutcome() {}
