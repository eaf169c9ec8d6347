package qmp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode/utf8"
)

// Command is a QMP command, a plain value that can be compared and kept.
//
// Printing it in any way (fmt, slog, encoding/json) shows the names of its arguments,
// and the values only of those that are known to hold nothing secret (openMembers).
// Only the session writes a command in full.
type Command struct {
	Execute   string
	Arguments any // encoded as JSON, nil for none
	// File is sent with the command (getfd, add-fd); nil for none. It stays open
	// until the reply, and the caller closes it.
	File *os.File
}

// hidden stands for a value that is not printed.
const hidden = `"***"`

// String returns the command's name and its arguments as JSON, redacted.
func (c Command) String() string {
	if c.Arguments == nil {
		return c.Execute
	}
	return c.Execute + " " + string(c.redacted())
}

// Format prints String whatever the verb.
func (c Command) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue returns String.
func (c Command) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON returns the command as QMP writes it, but redacted: it is for
// reports. The session has an encoding of its own.
func (c Command) MarshalJSON() ([]byte, error) {
	var arguments json.RawMessage
	if c.Arguments != nil {
		arguments = c.redacted()
	}
	return json.Marshal(wireCommand{Execute: c.Execute, Arguments: arguments})
}

// wireCommand is a command as QMP writes it.
type wireCommand struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	ID        uint64          `json:"id,omitempty"`
}

// encode returns the line that is sent for the command.
func (c Command) encode(id uint64) ([]byte, error) {
	wire := wireCommand{Execute: c.Execute, ID: id}
	if c.Arguments != nil {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			return nil, fmt.Errorf("encode the arguments: %w", err)
		}
		if !utf8.Valid(arguments) { // QEMU's answer would have no id
			return nil, errors.New("encode the arguments: json: not UTF-8")
		}
		wire.Arguments = arguments
	}
	line, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	return append(line, '\n'), nil
}

func (c Command) redacted() json.RawMessage {
	text, err := json.Marshal(c.Arguments)
	if err != nil {
		return json.RawMessage(hidden)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return json.RawMessage(hidden)
	}
	if text, err = json.Marshal(redact("", value)); err != nil {
		return json.RawMessage(hidden)
	}
	return text
}

// redact returns value, the member called key, without what may be secret: texts and
// numbers of members are shown only if it is known that these hold none. A misspelt
// "password" must not tell it.
func redact(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = redact(k, member)
		}
	case []any:
		for i, element := range v {
			v[i] = redact(key, element)
		}
	case string:
		if key == "value" || !open(key) {
			return json.RawMessage(hidden)
		}
		return openPart(v)
	case json.Number:
		if !open(key) {
			return json.RawMessage(hidden)
		}
	}
	return value
}

// openMembers are the names of members of commands' arguments that hold nothing secret,
// apart from addresses with a password. A value may be one: its texts are hidden.
const openMembers = " action addr bus chardev cluster-id core-id cpu-index device die-id drive driver event fdname " +
	"fdset-id file filename format id image iothread mode name netdev node-id node-name on-error opaque panic path " +
	"property protocol qom-type read-only-mode reboot requested-size shutdown size socket-id speed state target " +
	"thread-id time type uri url value watchdog "

// open reports whether a member is one of openMembers.
func open(key string) bool { return key != "" && strings.Contains(openMembers, " "+key+" ") }

// openPart returns a text without what addresses and options in it may tell: users,
// passwords, and signatures after a question mark.
func openPart(text string) any {
	if strings.HasPrefix(text, "json:") {
		return json.RawMessage(hidden)
	}
	scheme, rest, is := strings.Cut(text, "://")
	if !is {
		return text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	if bare, _, asks := strings.Cut(rest, "?"); asks {
		rest = bare + "?***"
	}
	return scheme + "://" + rest
}
