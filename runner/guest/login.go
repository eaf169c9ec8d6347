package guest

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// AnswerTime is a log-in agent's time to answer a command. It starts again after each answer that the agent is
// busy (1xx). After that the command counts as lost.
const AnswerTime = 5 * time.Minute

// A Login is the host's side of the dialogue with the log-in agent, the program in the guest that logs a user in
// at its screen. It is the state of the dialogue and decides which command comes next. It does no input or
// output, and gets the time as an argument.
//
// The host sends "login USER" or "logout", and the agent answers with lines that begin with three digits and a
// space, as in SMTP:
//
//	220 the agent is ready
//	201 the user is logged in
//	202 no user is logged in any more
//	240 the agent exits
//	1xx the command is in progress
//	4xx, 5xx the command failed
//
// At most one command is unanswered at a time, so each answer belongs to a known command.
type Login struct {
	wanted string
	// sent is the last command sent to this agent, "" if there was none.
	sent     string
	open     bool // sent has no answer yet
	deadline time.Time
	// known means that commands can be sent, because an agent listens, even if it hasn't greeted.
	known bool
	state LoginState
}

// LoginState is the state of the log-in agent as far as it is known.
type LoginState struct {
	// Connected reports whether the agent has greeted.
	Connected bool
	// User is the user who is logged in on request; "" if there is none.
	User string
	// Failure is why the last command failed, printable and short.
	Failure string
}

// State returns the current state.
func (l *Login) State() LoginState { return l.state }

// Want sets the user to log in; "" means no user. A name that is not printable or longer than MaxText bytes is
// never sent.
func (l *Login) Want(user string) { l.wanted = user }

// Opened records that a program in the guest has opened the agent's port, and replaces any earlier program. With
// greeted, it may be an agent that has already greeted an earlier runner: commands are sent without waiting for a
// greeting.
func (l *Login) Opened(greeted bool) {
	l.Closed()
	l.known = greeted
}

// Closed records that the port was closed.
func (l *Login) Closed() { *l = Login{wanted: l.wanted} }

// Receive handles a line of the agent, without its line end. It ignores lines outside of the protocol, and
// answers without a command.
func (l *Login) Receive(line string, now time.Time) {
	code, ok := codeOf(line)
	if !ok {
		return
	}
	switch {
	case code == "220":
		l.Opened(true)
		l.state.Connected = true
		return
	case code == "240":
		l.Closed()
		return
	case code == "202":
		l.state.User = "" // even if the user has logged out
		if l.sent != logout {
			return
		}
	case !l.open:
		return
	case code[0] == '1':
		l.deadline = now.Add(AnswerTime)
		return
	}
	if l.open {
		l.handleAnswer(code, line)
	}
}

// handleAnswer handles the answer to the open command.
func (l *Login) handleAnswer(code, line string) {
	l.open = false
	l.state.Connected = true
	l.state.Failure = ""
	user, isLogin := strings.CutPrefix(l.sent, login)
	switch {
	case isLogin && code == "201":
		l.state.User = user
	case !isLogin && code == "202":
	default:
		l.state.Failure = fitText(line)
	}
}

// The commands of the host.
const (
	login  = "login "
	logout = "logout"
)

// Send returns the command to send now, without a line end, or "". It counts as sent.
func (l *Login) Send(now time.Time) string {
	if l.open && !now.Before(l.deadline) {
		l.state.Failure = "the agent did not answer " + fitText(l.sent)
	}
	command := logout
	if l.wanted != "" {
		command = login + l.wanted
	}
	if !l.known || command == l.sent || l.open && now.Before(l.deadline) {
		return ""
	}
	l.sent = command
	if !canLogIn(l.wanted) {
		l.open = false
		l.state.Failure = "the name is too long or not printable"
		return ""
	}
	l.open, l.deadline, l.state.Failure = true, now.Add(AnswerTime), ""
	return command
}

// Wake returns when Send has to be called even if no line was received; the zero time means never.
func (l *Login) Wake(now time.Time) time.Time {
	if !l.open || !now.Before(l.deadline) {
		return time.Time{}
	}
	return l.deadline
}

// canLogIn reports whether a name can be sent as part of a line. An empty name is valid, because it is never
// sent.
func canLogIn(user string) bool {
	return utf8.ValidString(user) && len(user) <= MaxText &&
		strings.IndexFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// codeOf returns the three digits at the beginning of a line.
func codeOf(line string) (code string, ok bool) {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' {
		return "", false
	}
	for _, b := range []byte(line[:3]) {
		if b < '0' || b > '9' {
			return "", false
		}
	}
	return line[:3], true
}
