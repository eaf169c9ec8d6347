package plan_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// No text in a plan can erase or forge a line on a terminal, in any form for people.
func TestFormsOfAPlanArePrintable(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[1A\x1b[2K\nqemu /bin/forged\r\u202eb\u009b\x7f"
	origin := plan.Origin{{File: hostile, Line: 1, Function: hostile}}
	option := plan.Option{
		Flag: "-device", Value: hostile, List: true, Origin: origin,
		Properties: []plan.Property{{Key: "k", Value: hostile}},
	}
	p := &plan.Plan{
		Type: hostile,
		QEMU: plan.Process{
			Name: "qemu", Executable: hostile, Args: []plan.Option{option, {Flag: hostile}}, Dir: hostile,
			Env: []plan.Variable{{Name: hostile, Value: hostile}},
		},
		Helpers: []plan.Process{{
			Name: hostile, Executable: hostile, Ready: hostile, Role: hostile, Args: []plan.Option{option},
		}},
		Files: []plan.CopyOnce{{From: hostile, To: hostile, Kind: hostile, Origin: origin}},
		Taps: []plan.Tap{
			{Name: hostile, Bridge: hostile, Lease: &plan.Lease{
				Address: hostile, Gateway: hostile, Nameservers: []string{hostile}, Search: []string{hostile},
				Routes: []plan.Route{{To: hostile, Via: hostile}},
			}},
			{Name: hostile, Subnet: hostile, MAC: hostile, Hostname: hostile},
		},
		Listeners: []plan.Listener{{Name: hostile, Path: hostile}},
		Sockets:   []plan.Socket{{Role: hostile, Path: hostile, Port: hostile}},
		Drives:    []plan.Drive{{Device: hostile, Nodes: []string{hostile}, File: hostile}},
		Rules:     plan.Rules{plan.Balloon{Device: hostile}},
	}
	faults := ""
	for _, f := range p.Check() {
		faults += f.String() + "\n"
	}
	for form, text := range map[string]string{
		"text": p.Text(), "why": p.Why(), "argv": p.Command(), "shell": p.Shell(), "faults": faults,
	} {
		require.NotEmpty(t, text, form)
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool {
			return !unicode.IsPrint(r) && r != '\n' && r != unicode.ReplacementChar
		}), "%s: %q", form, text)
		require.NotContains(t, text, "\nqemu /bin/forged", form)
	}
}

// The shell form of an unprintable word evaluates to this word.
func TestShellFormOfUnprintableWords(t *testing.T) {
	t.Parallel()
	const word = "a b\x1b[2K\n'$x\\\t\u202eß%d\n\n"
	p := machine(plan.Option{Flag: "-append", Value: word})
	p.QEMU.Executable = "/usr/bin/printf"
	out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(p.Shell(), "-append", "'%s|'", 1)).Output()
	require.NoError(t, err)
	require.Equal(t, word+"|", string(out))
}

func TestWhatTheRunnerDoesItself(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"-incoming": "wait for another machine", "-preconfig": "wait for commands", "-runas": "change its user",
		"-loadvm": "saved state", "-no-shutdown": "never end", "--no-shutdown": "never end", "-M": "part(machine",
	} {
		require.Contains(t, faults(machine(plan.Option{Flag: flag, Value: "x"})), want, flag)
	}
	require.Contains(t, faults(machine(plan.Option{Flag: "-serial", Value: "mon:stdio"})), "second monitor")
	require.Empty(t, faults(machine(plan.Option{Flag: "-append", Value: "mon:stdio"})))
	for _, flag := range []string{"-m", "-machine", "-smp", "-cpu"} {
		once := plan.Option{Flag: flag, Value: "1", Origin: plan.Origin{{File: "x.star", Line: 3, Function: "launch"}}}
		require.Empty(t, faults(machine(once)))
		require.Contains(t, faults(machine(once, once)), flag+" is given a second time, first at x.star:3 launch")
	}
	several := []plan.Option{{Flag: "-accel", Value: "kvm"}, {Flag: "-accel", Value: "tcg"}}
	require.Empty(t, faults(machine(several...)))
}

func TestFilesThatAreCopied(t *testing.T) {
	t.Parallel()
	p := machine()
	p.Files = []plan.CopyOnce{{From: "/a", To: "/b", Kind: "uefi"}}
	require.Empty(t, faults(p))
	p.Files = []plan.CopyOnce{{From: "a", To: "/b", Kind: "../x"}}
	require.Contains(t, faults(p), `copy_once: "a" is not an absolute path`)
	require.Contains(t, faults(p), `kind = "../x" must have no slash`)
}
