package soak_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"vmop/runner/control"
	"vmop/test/wait"
)

// action is a step of the walk. It changes the machine and the model.
type action struct {
	name   string
	weight int              // relative frequency
	can    func(model) bool // nil for always
	do     func(*walk) (what string, err error)
}

func actions() []action {
	awake := func(m model) bool { return !m.paused }
	return []action{
		{"edit", 12, nil, (*walk).edit},
		{"edit wrongly", 3, nil, (*walk).editWrongly},
		{"edit in a hurry", 2, nil, (*walk).editInAHurry},
		{"pause", 2, awake, (*walk).pause},
		{"resume", 4, func(m model) bool { return m.paused }, (*walk).resume},
		{"reset", 1, awake, (*walk).reset},
		{"start the agent", 2, func(m model) bool { return !m.paused && !m.agent }, (*walk).startAgent},
		{"restart the agent", 2, func(m model) bool { return !m.paused && m.agent }, (*walk).restartAgent},
		{"kill the agent", 1, func(m model) bool { return !m.paused && m.agent }, (*walk).killAgent},
		{"look", 3, nil, (*walk).view},
		{"kill swtpm", 1, func(m model) bool { return !m.tpmLost }, (*walk).killTPM},
		{"kill the runner", 2, nil, (*walk).killRunner},
		{"restart", 1, awake, (*walk).restart},
	}
}

// change returns a wish with one difference.
func (w *walk) change(wish wish) (wish, string) {
	switch w.rng.IntN(8) {
	case 0:
		wish.cpus = 1 + w.rng.IntN(4)
	case 1, 2:
		wish.ram = (192 + 16*w.rng.Int64N(5)) * mib
	case 3:
		wish.medium = []string{"", "a.iso", "b.iso"}[w.rng.IntN(3)]
	case 4:
		wish.password = fmt.Sprint("canary", w.rng.IntN(1000))
	case 5:
		wish.timeout = 60 + w.rng.IntN(60)
	case 6:
		wish.user = []string{"", "alice", "bob"}[w.rng.IntN(3)]
	case 7:
		if w.rng.IntN(2) == 0 {
			wish.bootMenu = !wish.bootMenu
		} else {
			wish.rtcBase = []string{"utc", "localtime"}[w.rng.IntN(2)]
		}
	}
	return wish, fmt.Sprintf("%+v", wish)
}

func (w *walk) manner() manner {
	all := manners()
	return all[w.rng.IntN(len(all))]
}

func (w *walk) edit() (string, error) {
	wish, what := w.change(w.model.wish)
	w.model.edited(wish)
	return what, w.machine.configure(wish, "", w.manner())
}

// editInAHurry writes several times without waiting. Only the last one counts, which shows in the changes that need a
// restart. It does not change the number of CPUs, because temporarily plugged CPUs would stay.
func (w *walk) editInAHurry() (string, error) {
	wish := w.model.wish
	for i := range 5 {
		next, _ := w.change(wish)
		next.cpus, next.bootMenu = wish.cpus, w.model.wish.bootMenu != (i == 4)
		wish = next
		if err := w.machine.configure(wish, "", w.manner()); err != nil {
			return "", err
		}
	}
	w.model.edited(wish)
	return fmt.Sprintf("%+v", wish), nil
}

// editWrongly writes a file that must change nothing.
func (w *walk) editWrongly() (string, error) {
	wish, _ := w.change(w.model.wish)
	wish.password = w.model.wish.password // the password is in a separate file
	faults := []string{
		"    currentCpus: 9\n", "    nonsense: 1\n", "\t- {\n", "    maximumRam: lots\n",
		"    drives: 7\n",
	}
	fault := faults[w.rng.IntN(len(faults))]
	w.model.faulty = true
	return fmt.Sprintf("%q", fault), w.machine.configure(wish, fault, w.manner())
}

func (w *walk) act(what control.Action) error {
	ctx, cancel := wait.Context(w.t.Context())
	defer cancel()
	return w.machine.client.Act(ctx, what)
}

func (w *walk) pause() (string, error) {
	w.model.paused = true
	return "", w.act(control.Pause)
}

func (w *walk) resume() (string, error) {
	w.model.paused, w.model.asleep = false, false
	return "", w.act(control.Resume)
}

// reset resets the guest. A machine that has lost its TPM refuses this, because QEMU would end.
func (w *walk) reset() (string, error) {
	err := w.act(control.Reset)
	var refused *control.AnswerError
	if w.model.tpmLost {
		if !errors.As(err, &refused) || refused.Code != http.StatusConflict {
			return "", fmt.Errorf("without a TPM: want a refusal, got %w", err)
		}
		return "is refused without a TPM", nil
	}
	w.model.reset()
	return "", err
}

func (w *walk) startAgent() (string, error) {
	w.model.agent, w.model.booted = true, true
	return "", w.machine.shell(startAgent)
}

func (w *walk) restartAgent() (string, error) {
	return "", w.machine.shell(killAgent + "; " + startAgent)
}

func (w *walk) killAgent() (string, error) {
	w.model.agent = false
	return "", w.machine.shell(killAgent)
}

// view connects and disconnects viewers.
func (w *walk) view() (string, error) {
	ctx, cancel := wait.Context(w.t.Context())
	defer cancel()
	for range 5 {
		events, err := w.machine.client.Events(ctx)
		if err != nil {
			return "", err
		}
		_, err = events.Next()
		events.Close()
		if err != nil {
			return "", err
		}
		console, err := w.machine.client.Console(ctx, control.Watch)
		if err != nil {
			return "", err
		}
		screen, err := w.machine.client.VNC(ctx)
		if err != nil {
			return "", errors.Join(err, console.Close())
		}
		greeting := make([]byte, len("RFB 003.008\n"))
		if _, err = screen.Read(greeting); err == nil && !strings.HasPrefix(string(greeting), "RFB 003.") {
			err = fmt.Errorf("the screen says %q", greeting)
		}
		if err = errors.Join(err, console.Close(), screen.Close()); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (w *walk) killTPM() (string, error) {
	w.model.tpmLost = true
	return "", w.machine.kill("swtpm")
}

// killRunner kills the runner. The next runner takes the machine over. The configuration may change in between.
func (w *walk) killRunner() (what string, err error) {
	w.ends()
	before, err := w.machine.processes()
	if err != nil {
		return "", err
	}
	if err = w.machine.cmd.Process.Kill(); err != nil {
		return "", err
	}
	if _, err = w.machine.exit(); err != nil {
		return "", err
	}
	if w.rng.IntN(2) == 0 {
		if what, err = w.edit(); err != nil {
			return what, err
		}
	}
	w.model.adopted()
	w.life = life{}
	if code, err := w.machine.run(); code != 0 || err != nil {
		return what, fmt.Errorf("the next runner: exit code %d, %w", code, err)
	}
	after, err := w.machine.processes()
	if err == nil && before[qemuProgram] != after[qemuProgram] {
		err = fmt.Errorf("QEMU was process %d, and is %d", before[qemuProgram], after[qemuProgram])
	}
	return what, err
}

const qemuProgram = "qemu-system-x86_64"

// restart stops the machine in one of several ways, and starts it. An invalid configuration prevents the start until it
// is fixed.
func (w *walk) restart() (string, error) {
	w.ends()
	what, err := "control interface", error(nil)
	if w.rng.IntN(2) == 0 {
		what, err = "TERM", w.machine.cmd.Process.Signal(syscall.SIGTERM)
	} else {
		err = w.act(control.Stop)
	}
	if err != nil {
		return what, err
	}
	if code, err := w.machine.exit(); code != 0 || err != nil {
		return what, fmt.Errorf("exit code %d, %w", code, err)
	}
	if err := w.machine.nothingLeft(); err != nil {
		return what, err
	}
	if err := w.mend(); err != nil {
		return what, err
	}
	return what, w.start()
}

// mend fixes an invalid configuration, with which no runner starts.
func (w *walk) mend() error {
	if !w.model.faulty {
		return nil
	}
	if code, err := w.machine.run(); code != 2 || err != nil {
		return fmt.Errorf("with a faulty configuration: exit code %d, %w", code, err)
	}
	w.model.faulty = false
	return w.machine.configure(w.model.wish, "", manners()[0])
}
