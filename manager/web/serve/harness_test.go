package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"k8s.io/client-go/kubernetes"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/web/fleet"
	"vmop/test/cluster/clustertest"
	"vmop/test/logbook"
	"vmop/test/visitor"
	"vmop/test/wait"
)

// shared is the API server of the tests. It stores the managers' shared data, and answers access reviews.
var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// stage is a fleet with VMs that a test sets, and a console. Other methods are nil; package cluster tests them.
type stage struct {
	fleet.Fleet
	table fleet.Table
}

func (s *stage) List() []*fleet.VM                  { return s.table.List() }
func (s *stage) Outline() []*fleet.VM               { return s.table.List() }
func (s *stage) Whole(vms []*fleet.VM) []*fleet.VM  { return vms }
func (s *stage) Get(name string) (*fleet.VM, error) { return s.table.Get(name) }
func (s *stage) Changed() <-chan struct{}           { return s.table.Changed() }
func (s *stage) Used() fleet.Use                    { return fleet.UseOf(s.table.List()) }
func (s *stage) Storage() fleet.Storage             { return nil }
func (s *stage) Attachments() fleet.Attachments     { return nil }
func (s *stage) Snapshots() fleet.Snapshots         { return nil }
func (s *stage) Restores() fleet.Restores           { return nil }
func (s *stage) Copies() fleet.Copies               { return nil }
func (s *stage) Autostarts() fleet.Autostarts       { return nil }
func (s *stage) DataDeletion() fleet.DataDeletion   { return nil }
func (s *stage) Pools() fleet.Pools                 { return nil }

// Console returns a console that echoes its input.
func (*stage) Console(context.Context, string, string, fleet.Mode) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(far, far) }()
	return near, nil
}

// A house is a namespace with managers that serve pages.
type house struct {
	*clustertest.Namespace
	t      *testing.T
	client *kubernetes.Clientset
	fleet  *stage
	rights sync.Map // []v1.Permission by VM
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{Namespace: shared.Namespace(t), t: t, fleet: &stage{}}
	var err error
	h.client, err = kubernetes.NewForConfig(h.Config)
	require.NoError(t, err)
	return h
}

// vm puts a VM with permissions into the fleet.
func (h *house) vm(name string, permissions ...v1.Permission) {
	h.rights.Store(name, permissions)
	h.fleet.table.Put(&fleet.VM{Name: name, Type: "standard", State: fleet.Running, Console: true})
}

func (h *house) rightsOf(vm *fleet.VM) access.VM {
	given, _ := h.rights.Load(vm.Name)
	permissions, _ := given.([]v1.Permission)
	return access.VM{Name: vm.Name, Permissions: permissions}
}

// A replica is a manager that serves the pages of a house.
type replica struct {
	*Pages
	t    *testing.T
	log  *logbook.Logbook
	stop func() // stops it, and waits for its end
}

// replica starts a replica.
func (h *house) replica(c Config) *replica {
	h.t.Helper()
	r := &replica{t: h.t, log: &logbook.Logbook{}}
	var err error
	r.Pages, err = New(Options{
		Fleet: h.fleet, Namespace: h.Name, Secrets: h.client.CoreV1().Secrets(h.Name),
		Reviews: h.client.AuthorizationV1().SubjectAccessReviews(), Tokens: h.client.AuthenticationV1().TokenReviews(),
		Rights: h.rightsOf,
		Title:  "here", Log: slog.New(slog.NewTextHandler(r.log, nil)),
	}, c)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if cancel(); !stopped {
			stopped = true
			require.NoError(h.t, <-ended)
		}
	}
	h.t.Cleanup(func() {
		r.stop()
		if h.t.Failed() {
			h.t.Logf("the manager's log:\n%s", r.log)
		}
	})
	return r
}

// address waits until the replica serves for the nth time, and returns its address.
func (r *replica) address(nth int) string {
	r.t.Helper()
	var all [][]string
	wait.For(r.t, "the pages to be served", func() error {
		all = regexp.MustCompile(`msg="serving pages" address=\[::\](:\d+)`).FindAllStringSubmatch(r.log.String(), -1)
		if len(all) < nth {
			return errors.New("they are not")
		}
		return nil
	})
	return "127.0.0.1" + all[nth-1][1]
}

// logs waits for a line in the log.
func (r *replica) logs(text string) {
	r.t.Helper()
	wait.For(r.t, "the line "+text, func() error {
		if !strings.Contains(r.log.String(), text) {
			return errors.New(r.log.String())
		}
		return nil
	})
}

// local returns a configuration with local users. Each user's password is the name.
func local(t *testing.T, names ...string) Config {
	t.Helper()
	var c Config
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
		require.NoError(t, err)
		c.Login.Users = append(c.Login.Users, login.User{Name: name, Hash: string(hash)})
	}
	return c
}

// console opens the console of the VM alpha.
func console(t *testing.T, v *visitor.Visitor, address string) (*websocket.Conn, error) {
	t.Helper()
	const cookie = "__Host-vmop-session"
	socket, _, err := websocket.Dial(t.Context(), "ws://"+address+"/vms/alpha/console/stream?mode=type",
		&websocket.DialOptions{HTTPHeader: http.Header{
			"Cookie": {cookie + "=" + v.Cookies[cookie]}, login.PageKeyHeader: {v.PageKey},
		}})
	return socket, err
}
