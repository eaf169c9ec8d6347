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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"vmop/internal/cli"
	"vmop/internal/cli/typeflags"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/web"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/local"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// localFlags are the flags of local.
type localFlags struct {
	log    *cli.LogFlags
	types  typeflags.Flags
	listen string
	folder string
	runner string
}

func newLocal(log *cli.LogFlags) *cobra.Command {
	f := localFlags{log: log}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Show the VMs of this computer in a browser",
		Long: "Serve pages with the VMs of this computer: VMs configured in ~/.config/vmrunner and\n" +
			"/etc/opt/vmrunner, and running VMs with a configuration from elsewhere. On a terminal\n" +
			"it prints a link that works once, for this computer only; vmmanager local link prints\n" +
			"more links. When it ends, the VMs stay as they are.\n\n" +
			"The pages have a separate address, such as 127.83.12.9, because browsers send\n" +
			"cookies to all ports of an address, including forwarded ports of guests.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.runLocal(cmd) },
	}
	p := cmd.Flags()
	p.StringVar(&f.listen, "listen", "",
		"`ADDRESS` of this computer to listen on, such as 127.0.0.1:8080; port 0 is any free\nport (default an "+
			"address that only these pages use, the same each time)")
	cmd.PersistentFlags().StringVar(&f.folder, "folder", "",
		"`DIR` with the configurations of VMs, instead of the usual folders")
	p.StringVar(&f.runner, "runner", "", "`PATH` of vmrunner (default next to this program, then in $PATH)")
	f.types.Add(cmd)
	cmd.AddCommand(newLocalLink(&f), newLocalToken(&f))
	return cmd
}

// runLocal serves the pages until a signal arrives.
func (f *localFlags) runLocal(cmd *cobra.Command) error {
	level, err := f.log.ParseLevel()
	if err != nil {
		return err
	}
	handler, err := f.log.Handler(level, os.Stderr)
	if err != nil {
		return err
	}
	log := slog.New(handler)
	inv, err := f.localInventory(log)
	if err != nil {
		return err
	}
	place, err := localPlaceOf(config.HostEnv(), f.folder)
	if err != nil {
		return err
	}
	reserved, err := place.reservePlace(f.linkCommand())
	if err != nil {
		return err
	}
	defer reserved.Close()
	return f.servePages(cmd, place, inv, log)
}

// servePages serves the pages of a place until a signal arrives.
func (f *localFlags) servePages(cmd *cobra.Command, place localPlace, inv *inventory.Inventory,
	log *slog.Logger,
) error {
	listener, host, err := place.bindLoopback(cmd.Context(), f.listen, log)
	if err != nil {
		return err
	}
	vms := local.New(cmd.Context(), inv, localUser(), log)
	visitors, err := login.New(login.Options{
		Log: log, Now: time.Now, Sleep: login.Sleep, Link: localUser(), LinkRoles: []string{administrator},
		Host: host, Kept: place.sessionsFile(),
	})
	if err != nil {
		return err
	}
	visitors.Configure(login.Config{IdleTimeout: idleTimeout, Lifetime: lifetime})
	pages, err := web.New(web.Options{
		Fleet: vms, Visitors: f.guardOf(visitors), Title: hostName(), Version: version, Log: log,
		OneUser:   true,
		FirstStep: "vmrunner create web --cpus 2 --ram 2GiB",
		Restart:   f.restartCommand(os.Getenv("INVOCATION_ID") != ""),
	})
	if err != nil {
		return err
	}
	door, err := newDoor(cmd.Context(), place, linkAnswers(host, visitors), log)
	if err != nil {
		return err
	}
	printLink(cmd.OutOrStdout(), host, f.linkCommand(), visitors)
	return serveUntil(cmd.Context(), listener, pages, vms.Run, pages.Run, visitors.Run, door.runDoor)
}

// Limits for a browser that has opened a link: it may use the pages for at most lifetime, and loses access after
// idleTimeout without use.
const (
	idleTimeout = 12 * time.Hour
	lifetime    = 7 * 24 * time.Hour
)

// administrator is the role of the link's user, who may do everything.
const administrator = "administrator"

// guardOf returns a guard that allows the link's user everything.
func (f *localFlags) guardOf(visitors *login.Service) *web.Guard {
	everything := access.Authorizer{
		Policy: access.Policy{Administrators: access.Names{Roles: []string{administrator}}},
	}
	return &web.Guard{
		Login:  visitors,
		Access: func() access.Authorizer { return everything },
		Rights: func(vm *fleet.VM) access.VM { return access.VM{Name: vm.Name} },

		LinkCommand: f.linkCommand(), LinkUser: localUser(),
	}
}

// localInventory returns the VMs that the flags specify.
func (f *localFlags) localInventory(log *slog.Logger) (*inventory.Inventory, error) {
	program, err := f.runnerProgram()
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

// runnerProgram returns the path of vmrunner.
func (f *localFlags) runnerProgram() (string, error) {
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
		return "", cli.UsageError{Err: fmt.Errorf("find %s next to this program or in PATH; --runner names it: %w",
			runnerProgram, err)}
	}
	return filepath.Abs(found)
}

// runnerProgram is the name of the program that runs VMs.
const runnerProgram = "vmrunner"

// localUser is the name of the link's user in records.
func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "local"
}

// hostName is the title of all pages.
func hostName() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "VMs"
}

// printLink prints a link if out is a terminal. Other users may read other outputs, such as a journal, so it prints
// the command for getting a link there.
func printLink(out io.Writer, host string, command string, visitors *login.Service) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(out, "Open this link in a browser on this computer; it works once, within 10 minutes:\n\n    %s\n\n"+
			"For another link run: %s\n", linkTo(host, visitors), command)
		return
	}
	fmt.Fprintf(out, "The pages are served. For a link to log in run: %s\n", command)
}

// restartCommand returns the command that serves the pages again: it restarts the service, or runs this program.
func (f *localFlags) restartCommand(service bool) string {
	if service && os.Geteuid() == 0 {
		return "systemctl restart vmmanager-local"
	}
	return "vmmanager local" + f.folderFlag()
}

// linkCommand returns the command that prints a link.
func (f *localFlags) linkCommand() string { return "vmmanager local link" + f.folderFlag() }

// folderFlag returns the flag that makes another command use the same VMs, or "".
func (f *localFlags) folderFlag() string {
	folder, err := filepath.Abs(f.folder)
	switch {
	case f.folder == "" || err != nil:
		return ""
	case strings.ContainsAny(folder, " '\"$*?;&|<>()`\\"):
		folder = "'" + strings.ReplaceAll(folder, "'", `'\''`) + "'"
	}
	return " --folder " + folder
}

// serveUntil serves pages and runs the background functions until ctx is done.
func serveUntil(ctx context.Context, listener net.Listener, pages http.Handler,
	run ...func(context.Context) error,
) error {
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range run {
		group.Go(func() error { return r(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		return server.Close() // streams do not end by themselves
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve pages: %w", err)
		}
		return nil
	})
	return group.Wait()
}
