package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/cli/attach"
	"vmop/runner/control"
)

func newConsole(f *flags) *cobra.Command {
	var modes attach.Modes
	var log bool
	cmd := &cobra.Command{
		Use: "console NAME", Short: "Show the guest's serial console and type on it", GroupID: groupUse,
		Long: "console shows the serial console, beginning with the last 64 KiB of its output. On a terminal ^]\n" +
			"disconnects; all other keys go to the guest. One client can type at a time; any number can\n" +
			"watch. A VM that is starting is waited for. --log prints what the guest has written, and ends.",
		Example: "  kubectl vmop console web\n  kubectl vmop console web --log | grep -i error",
	}
	f.oneVM(cmd)
	modes.Add(cmd, "; on a terminal, Ctrl-C disconnects, too")
	cmd.Flags().BoolVar(&log, "log", false, "print the last 64 KiB of the guest's output, and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		g, err := f.guest(cmd, args, true)
		if err != nil {
			return err
		}
		if log {
			return printLog(cmd, g)
		}
		return attach.Console(cmd, g, mode,
			"Successfully connected to "+g.name+" console. The escape sequence is ^]")
	}
	return cmd
}

// quiet is how long a console says nothing after what it had said before: it comes at once.
const quiet = time.Second

// printLog prints what the guest has written last.
func printLog(cmd *cobra.Command, client attach.Runner) error {
	conn, err := client.Console(cmd.Context(), control.Watch)
	if err != nil {
		return err
	}
	defer conn.Close()
	var text bytes.Buffer
	parts := make(chan []byte)
	go func() {
		defer close(parts)
		for {
			part := make([]byte, control.ScrollBack)
			n, err := conn.Read(part)
			if err != nil {
				return
			}
			select {
			case parts <- part[:n]:
			case <-cmd.Context().Done():
				return
			}
		}
	}()
	for over := false; !over && text.Len() < control.ScrollBack; {
		select {
		case part, more := <-parts:
			text.Write(part)
			over = !more
		case <-time.After(quiet):
			over = true
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		}
	}
	_, err = cmd.OutOrStdout().Write(text.Bytes())
	return err
}

// listenFlags say where viewers of this computer connect.
type listenFlags struct{ host, port string }

func (l *listenFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.host, "address", "127.0.0.1", "`address` of this computer to listen on")
	cmd.Flags().StringVar(&l.port, "port", "0", "`port` of this computer to listen on; 0 is any that is free")
}

func (l *listenFlags) address() string { return net.JoinHostPort(l.host, l.port) }

func newVNC(f *flags) *cobra.Command {
	var modes attach.Modes
	var proxyOnly bool
	var listen listenFlags
	cmd := &cobra.Command{
		Use: "vnc NAME", Short: "Open the screen in a viewer", GroupID: groupUse,
		Long: "vnc opens the VM's screen in a viewer for VNC, and ends with it. With --proxy-only it opens none,\n" +
			"and connects those that you start with the screen, until Ctrl-C. The VM needs spec.vm.display, of\n" +
			"whatever kind. All users of this computer can connect to the port meanwhile.",
		Example: "  kubectl vmop vnc web\n  kubectl vmop vnc web --proxy-only --port 5901    # vncviewer 127.0.0.1::5901",
	}
	f.oneVM(cmd)
	modes.Add(cmd, "")
	cmd.Flags().BoolVar(&proxyOnly, "proxy-only", false, "open no viewer, print the port of this computer for one")
	listen.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		g, err := f.guest(cmd, args, true)
		if err != nil {
			return err
		}
		open := func(ctx context.Context) (net.Conn, error) {
			conn, err := g.Screen(ctx, mode)
			return conn, attach.HintTakeOver(err)
		}
		if proxyOnly || cmd.Flags().Changed("port") {
			return attach.Screens(cmd, listen.address(), open)
		}
		screen, err := open(cmd.Context()) // before a viewer opens a window
		if err != nil {
			return err
		}
		defer screen.Close()
		return attach.View(cmd.Context(), screen, "kubectl vmop vnc "+g.name+" --proxy-only")
	}
	return cmd
}

func newSPICE(f *flags) *cobra.Command {
	var v attach.SPICEViewer
	var listen listenFlags
	cmd := &cobra.Command{
		Use: "spice NAME", Short: "Open the screen in a SPICE viewer", GroupID: groupUse,
		Long: "spice opens the VM's screen in remote-viewer(1), with sound, USB devices and several monitors, and\n" +
			"ends with it. With -o it opens none, writes a file for one and serves it until Ctrl-C. The VM needs\n" +
			"spec.vm.display.spice, and no password. All users of this computer can connect to the port meanwhile.",
		Example: "  kubectl vmop spice web\n  kubectl vmop spice web -o web.vv",
	}
	f.oneVM(cmd)
	p := cmd.Flags()
	p.StringVarP(&v.File, "output-file", "o", "", "`file` to write for a viewer, instead of opening one")
	p.BoolVar(&v.TakeOver, "take-over", false, "disconnect another client")
	listen.add(cmd)
	cli.CompleteFile(cmd, "output-file", "vv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := f.guest(cmd, args, true)
		if err != nil {
			return err
		}
		v.Title, v.Address = g.name, listen.address()
		return attach.SPICE(cmd, g, v)
	}
	return cmd
}

func newScreenshot(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "screenshot NAME", Short: "Save a picture of the screen", GroupID: groupUse,
		Long: "screenshot saves the VM's screen as PNG, by default to NAME.png.",
	}
	f.oneVM(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` to write to; - is standard output")
	cli.CompleteFile(cmd, "file", "png")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := f.guest(cmd, args, false)
		if err != nil {
			return err
		}
		if file == "" {
			file = g.name + ".png"
		}
		ctx, cancel := patient(cmd.Context())
		defer cancel()
		return attach.Picture(ctx, cmd, g, file)
	}
	return cmd
}

func newPortForward(f *flags) *cobra.Command {
	var address string
	var stdio bool
	cmd := &cobra.Command{
		Use: "port-forward NAME [HOST:]GUEST...", Short: "Connect ports of this computer with ports of the guest",
		Long: "port-forward listens on TCP ports of this computer, HOST or one that is free, and connects clients\n" +
			"with the port GUEST of the guest, until Ctrl-C. The runner reaches the guest, whatever network it\n" +
			"has: no port of the pod need lead to it.",
		Example: "  kubectl vmop port-forward web 8080:80 22", GroupID: groupUse,
	}
	f.aVMAnd(cmd, 1, -1)
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "`address` of this computer to listen on")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "use the standard streams instead of listening")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, ports := split(args)
		pairs, err := attach.PortPairs(ports)
		if err == nil && stdio && len(pairs) != 1 {
			err = errors.New("--stdio takes one port")
		}
		if err != nil {
			return cli.UsageError{Err: err}
		}
		g, err := f.guest(cmd, args, true)
		if err != nil {
			return err
		}
		if stdio {
			return attach.Stdio(cmd, g, pairs[0].Guest)
		}
		return attach.Ports(cmd, g, address, pairs)
	}
	return cmd
}
