package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"vmop/cli"
	"vmop/manager/access"
	"vmop/manager/fleet"
	"vmop/manager/fleet/local"
	"vmop/manager/login"
	"vmop/manager/web"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// localFlags are those of local.
type localFlags struct {
	log    *cli.LogFlags
	types  cli.TypeFlags
	listen string
	folder string
	runner string
}

func newLocal(log *cli.LogFlags) *cobra.Command {
	f := localFlags{log: log}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Show the VMs of this computer in a browser",
		Long: "local serves pages with the VMs of this computer: those that are configured in\n" +
			"~/.config/vmrunner and /etc/opt/vmrunner, and those that run by other files. It\n" +
			"prints a link that works once, for this computer only. When it ends, the VMs\n" +
			"stay as they are.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	p := cmd.Flags()
	p.StringVar(&f.listen, "listen", "127.0.0.1:0", "`address` and port; port 0 is any that is free")
	p.StringVar(&f.folder, "folder", "", "`folder` with the configurations of VMs, in place of the usual\nones")
	p.StringVar(&f.runner, "runner", "", "`path` of vmrunner; default beside this program, then in PATH")
	f.types.Add(cmd)
	return cmd
}

// run serves until a signal.
func (f *localFlags) run(cmd *cobra.Command) error {
	level, err := f.log.ParseLevel()
	if err != nil {
		return err
	}
	handler, err := f.log.Handler(level, os.Stderr)
	if err != nil {
		return err
	}
	log := slog.New(handler)
	inv, err := f.inventory(log)
	if err != nil {
		return err
	}
	listener, err := f.bind(cmd.Context())
	if err != nil {
		return err
	}
	vms := local.New(cmd.Context(), inv, localUser(), log)
	visitors, err := login.New(login.Options{
		Log: log, Now: time.Now, Sleep: login.Sleep, Link: localUser(), LinkRoles: []string{administrator},
	})
	if err != nil {
		return err
	}
	visitors.Configure(login.Config{IdleTimeout: cookieAge, Lifetime: cookieAge})
	pages, err := web.New(web.Options{
		Fleet: vms, Visitors: guardOf(visitors), Title: hostname(), Version: version, Log: log,
		LogOut:    true,
		FirstStep: "vmrunner create web --cpus 2 --ram 2GiB",
	})
	if err != nil {
		return err
	}
	f.invite(cmd.OutOrStdout(), listener.Addr(), visitors)
	return serve(cmd.Context(), listener, pages, vms.Run, pages.Run, visitors.Run)
}

// cookieAge is how long the browser that has opened the link may use the pages, unless this
// program ends before.
const cookieAge = 30 * 24 * time.Hour

// administrator is the role of the user of the link: it may do everything.
const administrator = "administrator"

// guardOf lets the user of the link do everything.
func guardOf(visitors *login.Service) *web.Guard {
	everything := access.Authorizer{
		Policy: access.Policy{Administrators: access.Names{Roles: []string{administrator}}},
	}
	return &web.Guard{
		Login:  visitors,
		Access: func() access.Authorizer { return everything },
		Rights: func(vm *fleet.VM) access.VM { return access.VM{Name: vm.Name} },
		Local:  true,
	}
}

// inventory returns the VMs that the flags name.
func (f *localFlags) inventory(log *slog.Logger) (*inventory.Inventory, error) {
	program, err := f.program()
	if err != nil {
		return nil, err
	}
	env := config.HostEnv()
	places := inventory.Places(env)
	if f.folder != "" {
		folder, err := filepath.Abs(f.folder)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return nil, cli.UsageError{Err: fmt.Errorf("--folder %s: there is no such folder", f.folder)}
		}
		places = []inventory.Place{{Folder: folder, Detached: true, Env: env}}
	}
	limits, err := policy.Load(f.types.Policy)
	if err != nil {
		return nil, err
	}
	return inventory.New(inventory.Options{
		Env: env, Places: places, Prepare: prepare.Options{VMTypes: f.types.Folder, Policy: limits}, Log: log,
		Program: program, Arguments: []string{"--vmtypes", f.types.Folder, "--vmtypes-policy", f.types.Policy},
	}), nil
}

// program returns the path of vmrunner.
func (f *localFlags) program() (string, error) {
	if f.runner != "" {
		found, err := exec.LookPath(f.runner)
		if err != nil {
			return "", cli.UsageError{Err: fmt.Errorf("--runner: %w", err)}
		}
		return filepath.Abs(found)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), runnerProgram)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath(runnerProgram)
	if err != nil {
		return "", cli.UsageError{Err: fmt.Errorf("find %s beside this program or in PATH; --runner names it: %w",
			runnerProgram, err)}
	}
	return filepath.Abs(found)
}

// runnerProgram runs VMs.
const runnerProgram = "vmrunner"

// localUser is the name by which the user of the link appears in records.
func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "local"
}

// hostname is above all pages.
func hostname() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "VMs"
}

// bind listens on an address of this computer only: the pages may do everything.
func (f *localFlags) bind(ctx context.Context) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("--listen %s: want an address and a port such as 127.0.0.1:8080",
			f.listen)}
	}
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("listen for browsers: %w", err)
	}
	if address, ok := listener.Addr().(*net.TCPAddr); !ok || !address.IP.IsLoopback() {
		return nil, errors.Join(cli.UsageError{Err: fmt.Errorf(
			"--listen %s: others than this computer would reach it; want a loopback address such as 127.0.0.1:8080", f.listen)},
			listener.Close())
	}
	return listener, nil
}

// invite prints the link.
func (*localFlags) invite(out io.Writer, address net.Addr, visitors *login.Service) {
	fmt.Fprintf(out, "Open this link in a browser on this computer; it works once:\n\n    http://%s/link/%s\n\n",
		address, visitors.NewLink())
}

// serve serves pages, and runs what belongs to them, until ctx is done.
func serve(ctx context.Context, listener net.Listener, pages http.Handler, run ...func(context.Context) error) error {
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range run {
		group.Go(func() error { return r(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		return server.Close() // streams have no end of their own
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve pages: %w", err)
		}
		return nil
	})
	return group.Wait()
}
