package introspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// patience is the time limit of one query, which normally takes milliseconds.
const patience = 30 * time.Second

// session is a running QEMU without a machine.
type session struct {
	cmd     *exec.Cmd
	stop    context.CancelFunc
	in      io.WriteCloser
	out     *json.Decoder
	stderr  bytes.Buffer
	version string
	ended   bool
}

func startSession(ctx context.Context, program string) (*session, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &session{stop: stop}
	s.cmd = exec.CommandContext(ctx, program, "-machine", "none", "-nodefaults", "-no-user-config", "-display", "none",
		"-S", "-qmp", "stdio")
	s.cmd.Stderr, s.cmd.WaitDelay = &s.stderr, patience                  // its child processes may keep the pipe open
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // QEMU ignores the end of its input
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		s.in, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	s.out = json.NewDecoder(out)
	var greeting struct {
		QMP struct {
			Version struct {
				QEMU struct{ Major, Minor, Micro int }
			}
		}
	}
	if err := s.out.Decode(&greeting); err != nil {
		return nil, s.failWithOutput(err)
	}
	v := greeting.QMP.Version.QEMU
	s.version = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	return s, s.runCommand("qmp_capabilities", nil, nil)
}

// failWithOutput ends QEMU and returns an error with QEMU's output, if any.
func (s *session) failWithOutput(err error) error {
	_ = s.endSession()
	if text := strings.TrimSpace(s.stderr.String()); text != "" {
		return fmt.Errorf("QEMU says: %s", text)
	}
	return fmt.Errorf("QEMU does not answer: %w", err)
}

// runCommand executes a command; into may be nil.
func (s *session) runCommand(command string, arguments map[string]any, into any) error {
	question := map[string]any{"execute": command}
	if arguments != nil {
		question["arguments"] = arguments
	}
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	timer := time.AfterFunc(patience, s.stop) // killing QEMU closes the pipe
	defer timer.Stop()
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		s.ended = true
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
			Event  string
		}
		if err := s.out.Decode(&answer); err != nil {
			s.ended = true
			return fmt.Errorf("%s: %w", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case into == nil:
			return nil
		default:
			return json.Unmarshal(answer.Return, into)
		}
	}
}

// endSession ends QEMU with quit, or kills it if quit fails.
func (s *session) endSession() error {
	_, _ = s.in.Write([]byte(`{"execute": "quit"}` + "\n")) // it may already have ended
	err := s.in.Close()
	timer := time.AfterFunc(patience, s.stop)
	_ = s.cmd.Wait() // its exit status does not matter
	timer.Stop()
	s.stop()
	return err
}
