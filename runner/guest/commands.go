package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"vmop/qmp"
	"vmop/vmstatus"
)

// Info describes an agent (guest-info).
type Info struct {
	Version  string
	Commands map[string]bool // whether enabled, by name
}

// OSInfo describes the guest's operating system. All texts come from the guest, made printable and short.
type OSInfo = vmstatus.OSInfo

// Ping checks that the agent answers.
func (a *Agent) Ping(ctx context.Context) error {
	_, err := a.Run(ctx, qmp.Command{Execute: "guest-ping"})
	return err
}

// Info queries the agent's version and commands.
func (a *Agent) Info(ctx context.Context) (Info, error) {
	var said struct {
		Version  string `json:"version"`
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := a.queryAgent(ctx, "guest-info", &said); err != nil {
		return Info{}, err
	}
	info := Info{Version: fitText(said.Version), Commands: make(map[string]bool, len(said.Commands))}
	for _, c := range said.Commands {
		info.Commands[fitText(c.Name)] = c.Enabled
	}
	return info, nil
}

// OSInfo queries the guest's operating system.
func (a *Agent) OSInfo(ctx context.Context) (OSInfo, error) {
	var info OSInfo
	if err := a.queryAgent(ctx, "guest-get-osinfo", &info); err != nil {
		return OSInfo{}, err
	}
	for _, text := range []*string{
		&info.ID, &info.Name, &info.PrettyName, &info.Version, &info.VersionID,
		&info.Variant, &info.VariantID, &info.KernelRelease, &info.KernelVersion, &info.Machine,
	} {
		*text = fitText(*text)
	}
	return info, nil
}

func (a *Agent) queryAgent(ctx context.Context, name string, into any) error {
	value, err := a.Run(ctx, qmp.Command{Execute: name})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("guest agent %s: read the reply: %s", name, fitText(err.Error()))
	}
	return nil
}

// Mode is a way of shutting down.
type Mode string

// The modes of guest-shutdown.
const (
	PowerDown Mode = "powerdown"
	Halt      Mode = "halt" // QEMU keeps running, and sends no event for it
	Reboot    Mode = "reboot"
)

// Shutdown asks the guest to shut down. nil means that the agent has begun the shutdown; QEMU's event SHUTDOWN
// marks its end.
//
// guest-shutdown has no reply unless it is refused. Shutdown therefore sends a guest-sync-delimited immediately
// after it: the answer, or the end of the socket, shows that there is no refusal.
func (a *Agent) Shutdown(ctx context.Context, mode Mode) error {
	asked := false
	err := a.runExclusively(ctx, func() error {
		id, err := a.sendCommand(qmp.Command{Execute: "guest-shutdown", Arguments: map[string]Mode{"mode": mode}})
		if err != nil {
			return err
		}
		asked = true
		syncID, err := a.sendSync()
		if err != nil {
			return err
		}
		said, err := a.awaitSync(syncID, true)
		if err != nil {
			return err
		}
		return refusalAmong(said, id)
	})
	if err == nil || asked && errors.Is(err, ErrClosed) {
		return nil
	}
	return fmt.Errorf("guest agent guest-shutdown: %w", err)
}

// refusalAmong returns the error reply to the command with the id among lines.
func refusalAmong(lines []byte, id int64) error {
	for line := range bytes.Lines(lines) {
		r, err := parseReply(bytes.TrimSpace(line))
		if err != nil {
			continue
		}
		if _, err, mine := r.answerTo(id); mine && err != nil {
			return err
		}
	}
	return nil
}
