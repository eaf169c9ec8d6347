package qmp

import (
	"context"
	"encoding/json"
	"fmt"
)

// Pending is a command whose reply has not been waited for.
type Pending struct {
	session *Session
	command string
	id      uint64
	line    []byte // until it is sent; guarded by the session's mutex
	rights  []byte // a descriptor that is sent with it (SCM_RIGHTS of unix(7)); nil for none

	done  chan struct{} // closed when reply and err are set
	reply json.RawMessage
	err   error
	then  func(json.RawMessage, error) // called when done is closed; may be nil
}

// finish is called exactly once: by whoever took the command out of the
// session's books.
func (p *Pending) finish(reply json.RawMessage, err error) {
	p.session.log.Debug("QMP reply", "command", p.command, "bytes", len(reply), "err", err)
	p.reply, p.err = reply, err
	close(p.done)
	if p.then != nil {
		p.then(p.result())
	}
}

// result returns what Wait returns once done is closed.
func (p *Pending) result() (json.RawMessage, error) {
	if p.err != nil {
		return nil, fmt.Errorf("QMP %s: %w", p.command, p.err)
	}
	return p.reply, nil
}

// Withdraw takes the command back if it has not been sent, and reports whether
// it could: then no reply comes, and a function given to Call is not called.
func (p *Pending) Withdraw() bool { return p.session.withdraw(p) }

func (p *Pending) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the reply is there or cannot come any more: Wait does not
// wait then.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the reply, with the errors of Session.Run. It may be called again,
// also after the context of an earlier call ended.
func (p *Pending) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("QMP %s: no reply: %w", p.command, context.Cause(ctx))
		}
	}
	return p.result()
}
