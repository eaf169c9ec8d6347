package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/attach"
	"vmop/runner/control"
)

func newConsole(f *flags) *cobra.Command {
	var modes attach.Modes
	var log bool
	cmd := &cobra.Command{
		Use: "console NAME", Short: "Show the guest's serial console and type on it", GroupID: groupUse,
		Long: "Show the serial console, starting with the last 64 KiB of its output, and type on it. On\n" +
			"a terminal ^] disconnects; all other keys go to the guest. One client can type at a\n" +
			"time; any number can watch. If the VM is starting, console waits for it. --log prints\n" +
			"the output so far, and exits.",
		Example: "  kubectl vmop console web\n  kubectl vmop console web --log | grep -i error",
	}
	f.oneVM(cmd)
	modes.Add(cmd, "; on a terminal, Ctrl-C also disconnects")
	cmd.Flags().BoolVar(&log, "log", false, "print the last 64 KiB of the guest's output, and exit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		g, err := f.findGuest(cmd, args, true)
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

// quiet is the silence that marks the end of a console's earlier output, which arrives immediately.
const quiet = time.Second

// printLog prints the guest's latest output.
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

// listenFlags define the address where viewers on this computer connect.
type listenFlags struct{ host, port string }

func (l *listenFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.host, "address", "127.0.0.1", "`ADDRESS` of this computer to listen on")
	cmd.Flags().StringVar(&l.port, "port", "0", "`PORT` of this computer to listen on; 0 is any free port")
}

func (l *listenFlags) listenAddress() string { return net.JoinHostPort(l.host, l.port) }

func newVNC(f *flags) *cobra.Command {
	var modes attach.Modes
	var proxyOnly bool
	var listen listenFlags
	cmd := &cobra.Command{
		Use: "vnc NAME", Short: "Open the screen in a viewer", GroupID: groupUse,
		Long: "Open the VM's screen in a VNC viewer, and return when the viewer is closed. With\n" +
			"--proxy-only or --port no viewer is opened; connect your own until Ctrl-C. The VM needs\n" +
			"spec.vm.display of any kind. All users of this computer can connect to the port.",
		Example: "  kubectl vmop vnc web\n  kubectl vmop vnc web --proxy-only --port 5901    # vncviewer 127.0.0.1::5901",
	}
	f.oneVM(cmd)
	modes.Add(cmd, "")
	cmd.Flags().BoolVar(&proxyOnly, "proxy-only", false,
		"print the port for your own viewer instead of opening one; --port implies it")
	listen.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		g, err := f.findGuest(cmd, args, true)
		if err != nil {
			return err
		}
		open := func(ctx context.Context) (net.Conn, error) {
			conn, err := g.Screen(ctx, mode)
			return conn, attach.HintTakeOver(err)
		}
		if proxyOnly || cmd.Flags().Changed("port") {
			return attach.Screens(cmd, listen.listenAddress(), open)
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
		Long: "Open the VM's screen in remote-viewer(1), with sound, USB devices and several monitors,\n" +
			"and return when it is closed. With -o a file for a viewer is written and served until\n" +
			"Ctrl-C. The VM needs spec.vm.display.spice without a password. All users of this\n" +
			"computer can connect to the port.",
		Example: "  kubectl vmop spice web\n  kubectl vmop spice web -o web.vv",
	}
	f.oneVM(cmd)
	p := cmd.Flags()
	p.StringVarP(&v.File, "output-file", "o", "", "`FILE` to write for a viewer, instead of opening one")
	p.BoolVar(&v.TakeOver, "take-over", false, "disconnect the client that uses the screen")
	listen.addFlags(cmd)
	cli.CompleteFile(cmd, "output-file", "vv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := f.findGuest(cmd, args, true)
		if err != nil {
			return err
		}
		v.Title, v.Address = g.name, listen.listenAddress()
		return attach.SPICE(cmd, g, v)
	}
	return cmd
}

func newScreenshot(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "screenshot NAME", Short: "Save a picture of the screen", GroupID: groupUse,
		Long: "Save the VM's screen as PNG, by default to NAME.png.",
	}
	f.oneVM(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`FILE` to write to; - is standard output (default NAME.png)")
	cli.CompleteFile(cmd, "file", "png")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := f.findGuest(cmd, args, false)
		if err != nil {
			return err
		}
		if file == "" {
			file = g.name + ".png"
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		return attach.Picture(ctx, cmd, g, file)
	}
	return cmd
}

func newPortForward(f *flags) *cobra.Command {
	var address string
	var stdio bool
	cmd := &cobra.Command{
		Use: "port-forward NAME [HOST:]GUEST...", Short: "Forward ports of this computer to the guest",
		Long: "Forward TCP ports of this computer to ports of the guest until Ctrl-C. Without HOST a\n" +
			"free port is used. The runner connects to the guest over any kind of network; the pod\n" +
			"needs no open port.",
		Example: "  kubectl vmop port-forward web 8080:80 22", GroupID: groupUse,
	}
	f.aVMAnd(cmd, 1, -1)
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "`ADDRESS` of this computer to listen on")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "connect the standard streams to the port, instead of listening")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, ports := splitName(args)
		pairs, err := attach.PortPairs(ports)
		if err == nil && stdio && len(pairs) != 1 {
			err = errors.New("--stdio takes one port")
		}
		if err != nil {
			return cli.UsageError{Err: err}
		}
		g, err := f.findGuest(cmd, args, true)
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
