package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/test/invariants"
	"vmop/test/tier"
)

// A test can't change this machine's clock, but it can change a guest's. vmrunner runs in the tiny guest, with a
// program instead of QEMU that only speaks QMP, and prints when it receives system_powerdown and quit.
func TestFault40TheClockJumps(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	const timeout = 5 * time.Second
	dir := folder(t, "standard", append(tiny(t, ""), "drives: [{file: PATH/programs.tar}]")...)
	pack(t, filepath.Join(dir, "programs.tar"), timeout)
	outer, guest := booting(t, dir)
	guest.typeLine("sh mkdir /t && tar xf /dev/vda -C /t && ln -s vmrunner /t/clock-qemu && /t/vmrunner version")
	guest.await(`(?m)^rc=0`)

	for what, jump := range map[string]string{"forward": "+ 86400", "back": "- 86400"} {
		// On a busy computer, the emulated vmrunner may take longer to evaluate a type than allowed.
		guest.typeLine("sh cd /t && { for try in 1 2 3 4 5; do ./vmrunner run -c config.yaml --vmtypes types " +
			"--log-format text & echo $! >pid; wait $!; rc=$?; echo ENDED $rc; [ $rc = 1 ] || break; done; } " +
			"2>&1 | cat >/dev/console &")
		guest.await(`booting`)
		guest.typeLine("sh date -s @$(($(date +%s) " + jump + ")) && kill -TERM $(cat /t/pid)")
		asked := guest.moment("system_powerdown")
		guest.typeLine("sh date -s @$(($(date +%s) " + jump + ")); echo jumped") // jumps a second time
		guest.await(`(?m)^jumped`)
		forced := guest.moment("quit")
		guest.await(`outcome="forced \(host-qmp-quit\)"`)
		guest.await(`(?m)^ENDED 0`)
		// The time starts with the runner's decision, shortly before the button. With a clock that jumps, the remaining
		// time would be zero or a day.
		require.Greater(t, forced-asked, timeout/2,
			"the guest got less time than powerdownTimeout: the clock jumped %s", what)
	}
	require.NotContains(t, guest.out.out.String(), "WRN")
	guest.typeLine("poweroff")
	require.Zero(t, outer.exit())
	invariants.NothingLeft(t, dir)
}

// moment waits until the fake QEMU reports a command, and returns its time on a clock that does not jump.
func (s *serial) moment(command string) time.Duration {
	s.out.t.Helper()
	s.await(`CLOCK-QEMU ` + command + ` \d+`)
	all := regexp.MustCompile(`CLOCK-QEMU `+command+` (\d+)`).FindAllStringSubmatch(s.out.out.String(), -1)
	ns, err := strconv.ParseInt(all[len(all)-1][1], 10, 64)
	require.NoError(s.out.t, err)
	return time.Duration(ns)
}

// pack creates an archive with a static vmrunner and the configuration of a VM that it can run in the guest.
func pack(t *testing.T, archive string, timeout time.Duration) {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o",
		filepath.Join(dir, "vmrunner"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "types"), os.DirFS("../../runner/testdata/vmtypes")))
	config := fmt.Sprintf("\"/Runner\":\n  dataDir: data\n  runtimeDir: run\n  vmType: bare\n  vm:\n    name: test\n"+
		"    maximumRam: 64 MiB\n    powerdownTimeout: %d\n    options: {qemu: /t/clock-qemu}\n", int(timeout.Seconds()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600))
	out, err = exec.CommandContext(t.Context(), "tar", "-cf", archive, "-C", dir, "vmrunner", "types",
		"config.yaml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// clockQEMU is a program that only speaks QMP.
func clockQEMU() {
	if err := speakQMP(); err != nil {
		fmt.Fprintln(os.Stderr, "clock-qemu:", err)
		os.Exit(1)
	}
}

func speakQMP() error {
	number := regexp.MustCompile(`id=vmop-monitor,fd=(\d+)`).FindStringSubmatch(strings.Join(os.Args, " "))
	if number == nil {
		return fmt.Errorf("no monitor in %q", os.Args)
	}
	fd, err := strconv.Atoi(number[1])
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "monitor"))
	if err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	fmt.Fprintln(conn, `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}, "package": ""}, `+
		`"capabilities": []}}`)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var command struct {
			Execute string
			ID      json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			return err
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "CLOCK-QEMU", command.Execute, now.Nano())
		fmt.Fprintf(conn, "{\"return\": %s, \"id\": %s}\n", answerTo(command.Execute), command.ID)
		if command.Execute == "quit" {
			fmt.Fprintln(conn, `{"event": "SHUTDOWN", "data": {"guest": false, "reason": "host-qmp-quit"}}`)
			return nil
		}
	}
	return nil
}

// answerTo returns QEMU's answer for a machine without devices.
func answerTo(command string) string {
	switch command {
	case "query-status":
		return `{"status": "running", "running": true, "singlestep": false}`
	case "qom-get":
		return `"pc-q35-7.2-machine"`
	case "query-spice":
		return `{"enabled": false, "migrated": false, "mouse-mode": "client"}`
	case "query-block", "query-chardev", "query-hotpluggable-cpus", "query-vnc-servers", "qom-list":
		return `[]`
	}
	return `{}`
}
