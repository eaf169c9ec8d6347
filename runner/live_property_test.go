package runner_test

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/machine/usernet"
	"vmop/runner/status"
	"vmop/test/ports"
)

// forwarded describes the host ports that QEMU's user network forwards.
func (v *vm) forwarded() string {
	var said string
	v.query(&said, usernet.List())
	var all []string
	for _, f := range usernet.Parse(said)["net0"] {
		all = append(all, fmt.Sprintf("%s %s:%d %d", f.Protocol, f.Address, f.Host, f.Guest))
	}
	return strings.Join(all, ", ")
}

// Changes that a rule of the plan allows are applied to the running VM without a restart. Tests of
// runner/machine/changes check which changes need a restart.
func TestAVMFollowsItsConfiguration(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.write("display-password", "first")
	port := strconv.Itoa(ports.Reserve(t))
	follows := func(resets int, lines ...string) {
		t.Helper()
		section := append(v.section("display: {vnc: {}, loggedInUser: "+lines[0]+"}"), lines[1:]...)
		section[3] = "network: [{type: user, ports: [{host: " + port + ", guest: " + lines[0][len("user"):] + "}]}]"
		own := []string{fmt.Sprint("resetCounter: ", resets), fmt.Sprint("resource: r", resets)}
		v.configure("wrapped", own, section...)
	}
	follows(1, "user22", "currentCpus: 1", "drives: [{type: ide-cd, file: a.iso}]")
	v.runs()
	require.Equal(t, v.path("a.iso"), v.medium())

	follows(2, "user23", "currentCpus: 3", "drives: [{type: ide-cd, file: b.iso}]")
	v.write("display-password", "other-canary")
	eventually(t, 3, v.cpus)
	eventually(t, v.path("b.iso"), v.medium)
	eventually(t, "tcp 127.0.0.1:"+port+" 23", v.forwarded)
	eventually(t, 2, func() int { return len(v.log.find("QMP command", "command", "set_password")) })
	v.log.await(t, v.ended, "QMP event", "event", "RESET", "data", "host-qmp-system-reset")
	s := v.becomes("compared", func(s status.Status) bool { return s.Configuration.Compared == 2 })
	require.Empty(t, s.RestartAwaitingChanges)
	require.Equal(t, []string{"user23", "r2"}, []string{s.WantedUser, s.Configuration.Resource})

	follows(2, "user23", "currentCpus: 3", "drives: [{type: ide-cd}]")
	eventually(t, "", v.medium)
	require.NoError(t, os.Remove(v.path("display-password")))
	v.becomes("without a password", func(s status.Status) bool {
		return len(s.RestartAwaitingChanges) == 1 && s.RestartAwaitingChanges[0].Path == "display-password"
	})
	v.ends()
	require.NotContains(t, v.log.text(), "canary")
}

// Every field of the runner's section has a row, so that the author of a new field considers its effect on a running
// VM. The fields of the vm section are in runner/machine/changes.
func TestEveryFieldOfTheRunnersSection(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.runs()
	base := v.read("config.yaml")
	rows := map[string]struct{ line, awaits, fault string }{
		"dataDir":            {"dataDir: other", "dataDir", ""},
		"runtimeDir":         {"runtimeDir: other", "runtimeDir", ""},
		"namespace":          {"namespace: other", "", ""},
		"imageRepository":    {"imageRepository: images", "", ""}, // no option contains a file
		"nbdCertificates":    {"nbdCertificates: nbd", "nbdCertificates", ""},
		"drivesRevision":     {"drivesRevision: 3", "", ""}, // without drives
		"cloudInit":          {"cloudInit: {userData: {hostname: other}}", "cloudInit", ""},
		"provisioned":        {"provisioned: true", "", ""}, // only names its fields
		"sysprep":            {"sysprep: {directory: gone}", "", "sysprep.directory"},
		"guestShutdownStops": {"guestShutdownStops: true", "", ""}, // applies when the guest shuts down
		"crashStops":         {"crashStops: true", "", ""},         // applies when it crashes
		"resetCounter":       {"resetCounter: 1", "", ""},          // the first value is not a reset
		"vmType":             {"vmType: bare", "vmType", ""},
		"updateVmType":       {"updateVmType: true", "", ""}, // the type is the same
		"resource":           {"resource: other", "", ""},
		"generation":         {"", "", ""}, // differs in each row
	}
	generation := 1
	for field := range reflect.TypeFor[config.Config]().Fields() {
		name := field.Tag.Get("yaml")
		row, known := rows[name]
		require.Equal(t, name != "" && name != "vm", known, "the field %s", name)
		if !known {
			continue
		}
		generation++
		text := base
		for line := range strings.Lines(base) {
			if strings.HasPrefix(line, "  "+name+":") {
				text = strings.Replace(base, line, "", 1)
			}
		}
		lines := fmt.Sprintf(":\n  generation: %d\n  %s\n", generation, row.line)
		v.replace("config.yaml", strings.Replace(text, ":\n", lines, 1))
		s := v.becomes(name, func(s status.Status) bool {
			c := s.Configuration
			return c.Generation == int64(generation) && (c.Compared == c.Generation || c.Error != "")
		})
		require.Contains(t, s.Configuration.Error, row.fault)
		require.Equal(t, row.fault == "", s.Configuration.Error == "", s.Configuration.Error)
		var awaits []string
		for _, c := range s.RestartAwaitingChanges {
			awaits = append(awaits, c.Path)
		}
		if row.fault == "" {
			require.Equal(t, row.awaits, strings.Join(awaits, " "), name)
		}
	}
	reply, err := v.client().QMP(t.Context(), qmp.Command{Execute: "query-status"})
	require.NoError(t, err)
	require.Contains(t, string(reply), `"running"`)
	v.ends()
}
