package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"vmop/test/cluster/clustertest"
)

// TestMain puts the program on the PATH of scripts.
func TestMain(m *testing.M) {
	testscript.Main(withCluster{m}, map[string]func(){"kubectl-vmop": main})
}

// withCluster ends the cluster that the tests share.
type withCluster struct{ *testing.M }

func (m withCluster) Run() int { return shared.Run(m.M) }

// shared is the cluster that the tests of this package share: an API server without nodes.
var shared clustertest.Shared

// The program works with a real API server. The test decides about operations instead of the manager, and the scripts
// write the statuses of VMs.
//
//	vmop ARGUMENT...          runs kubectl-vmop in the script's own namespace; "!" if it must fail
//	kubectl ARGUMENT...       runs kubectl there
//	sh TEXT                   runs a shell script there
//	exits CODE ARGUMENT...    runs kubectl-vmop, which must exit with a code
//	status VM JSON            writes the status of a VM
//	diskstatus DISK JSON      writes the status of a disk
//	vmsnapstatus NAME JSON    writes the status of a VirtualMachineSnapshot
//	vdsnapstatus NAME JSON    writes the status of a VirtualDiskSnapshot
func TestScripts(t *testing.T) {
	t.Parallel()
	k := shared.Get(t)
	run := func(ts *testscript.TestScript, program string, args []string) error {
		inside := k.Inside(t.Context(), program, args...)
		return ts.Exec(inside.Args[0], inside.Args[1:]...)
	}
	verb := func(program string, first ...string) func(*testscript.TestScript, bool, []string) {
		return func(ts *testscript.TestScript, fails bool, args []string) {
			if err := run(ts, program, append(first, args...)); (err != nil) != fails {
				ts.Fatalf("%s %q: %v", program, args, err)
			}
		}
	}
	status := func(kind string) func(*testscript.TestScript, bool, []string) {
		return func(ts *testscript.TestScript, fails bool, args []string) {
			verb("kubectl", "patch", kind, args[0], "--subresource=status", "--type=merge", "-p")(ts, fails,
				[]string{`{"status": ` + args[1] + `}`})
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			file := filepath.Join(env.WorkDir, "kubeconfig")
			env.Setenv("KUBECONFIG", file)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", filepath.Join(k.Programs, "bin")+string(os.PathListSeparator)+env.Getenv("PATH"))
			namespace := k.Namespace(t).Name
			env.Setenv("NAMESPACE", namespace)
			operates(t, k, namespace)
			return writeKubeconfig(k.Kubeconfig, file, namespace)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"vmop": verb("kubectl-vmop"), "kubectl": verb("kubectl"), "sh": verb("sh", "-c"),
			"status": status("vm"), "diskstatus": status("vd"),
			"vmsnapstatus": status("vmsnapshot"), "vdsnapstatus": status("vdsnapshot"),
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				var exit *exec.ExitError
				code := 0
				if err := run(ts, "kubectl-vmop", args[1:]); errors.As(err, &exit) {
					code = exit.ExitCode()
				}
				if fmt.Sprint(code) != args[0] {
					ts.Fatalf("kubectl-vmop %s: exit code %d, want %s", strings.Join(args[1:], " "), code, args[0])
				}
			},
		},
	})
}

// writeKubeconfig writes a copy of a kubeconfig with another namespace.
func writeKubeconfig(from, to, namespace string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, to)
}
