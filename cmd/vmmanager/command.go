package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/javalogging"
	"vmop/manager"
	"vmop/manager/vm/takeover"
)

// flags are the flags of run.
type flags struct {
	log         cli.LogFlags
	config      string
	kubeconfig  string
	context     string
	runnerImage string
	leaderElect bool
	health      string
	metrics     string
}

func newManagerCommand() *cobra.Command {
	var f flags
	run := newRun(&f)
	root := &cobra.Command{
		Use:   "vmmanager",
		Short: "Run the VirtualMachines of a Kubernetes namespace",
		Long: "Run the VirtualMachines of a Kubernetes namespace.\nWithout a verb, vmmanager does the same as \"vmmanager run\", in a pod or with a kubeconfig.\n" +
			"To show the VMs of this computer in a browser, run: vmmanager local\n\n" + exitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().NFlag() == 0 && !hasCluster() {
				return cmd.Help()
			}
			return run.RunE(cmd, args)
		},
	}
	cli.SetUp(root, version)
	f.log.Add(root)
	root.Flags().AddFlagSet(run.Flags())
	cli.CompleteFile(run, "config", "yaml", "yml", "json")
	root.AddCommand(run, newLocal(&f.log), newDevices(&f.log), newCheckConfig(), newTakeover(), newHashPassword())
	return root
}

// hasCluster reports whether this process is in a pod, or finds a kubeconfig.
func hasCluster() bool {
	home, _ := os.UserHomeDir() // without it, there is no kubeconfig
	_, err := os.Stat(filepath.Join(home, ".kube", "config"))
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" || os.Getenv("KUBECONFIG") != "" || err == nil
}

// exitCodes is for the help; see the package comment.
const exitCodes = `Exit codes:
  0  stopped by a signal (TERM, INT), or a valid configuration
  1  failed: the API server can't be reached or has no VirtualMachines, or
     another manager has become the leader; takeover: something is blocked
  2  wrong usage, errors in the configuration, no namespace to manage, or no
     API server`

func newRun(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Manage VMs until stopped by a signal",
		Long: "Manage the VMs of a namespace: the pod's namespace, or the namespace in the\n" +
			"configuration. Outside a cluster it connects with a kubeconfig. It reads its\n" +
			"configuration again whenever the file changes. Without --log-level,\n" +
			"logging.properties next to the configuration sets the level of the log, if it exists.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.managerOptions(cmd)
			if err == nil {
				err = manager.Run(cmd.Context(), opts)
			}
			if err != nil && f.log.Form == "json" && opts.Handler != nil {
				slog.New(opts.Handler).Error("stopped", "err", err.Error())
				return loggedError{err}
			}
			return err
		},
	}
	p := cmd.Flags()
	p.StringVarP(&f.config, "config", "c", manager.DefaultConfigFile, "configuration `FILE`; the default may be absent")
	p.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE` (default $KUBECONFIG, then the pod, then ~/.kube/config)")
	p.StringVar(&f.context, "context", "", "`NAME` of the kubeconfig context")
	p.StringVar(&f.runnerImage, "runner-image", cmp.Or(os.Getenv(takeover.RunnerImageVariable), "vmop/runner:"+version),
		"`IMAGE` of runners if neither the VM nor the configuration\nsets an image; $"+takeover.RunnerImageVariable+
			" sets the default")
	p.BoolVar(&f.leaderElect, "leader-elect", false,
		"manage VMs only while holding the namespace's lease (default true in a pod)")
	p.StringVar(&f.health, "health-address", ":8081", "`ADDRESS` of /healthz and /readyz, HOST:PORT; \"\" for none")
	p.StringVar(&f.metrics, "metrics-address", "127.0.0.1:8082", "`ADDRESS` of /metrics, HOST:PORT; \"\" for none")
	return cmd
}

// managerOptions returns the options from the flags and the environment.
func (f *flags) managerOptions(cmd *cobra.Command) (manager.Options, error) {
	level, err := f.log.ParseLevel()
	if err != nil {
		return manager.Options{}, err
	}
	levels := &manager.Levels{Fixed: cmd.Flags().Changed("log-level")}
	levels.Manager.Set(level)
	levels.Libraries.Set(level)
	handler, err := f.log.Handler(javalogging.All, os.Stderr)
	if err != nil {
		return manager.Options{}, err
	}
	opts := manager.Options{
		ConfigFile: f.config, ConfigOptional: !cmd.Flags().Changed("config"),
		RunnerImage: f.runnerImage, LeaderElection: f.leaderElect,
		HealthAddress: f.health, MetricsAddress: f.metrics, Handler: handler, Levels: levels, Version: version,
	}
	if _, err := os.Stat(f.config); errors.Is(err, fs.ErrNotExist) && !opts.ConfigOptional {
		return opts, cli.UsageError{Err: fmt.Errorf("there is no configuration %s", f.config)}
	}
	if opts.Connection, err = manager.Connect(f.kubeconfig, f.context); err != nil {
		return opts, err
	}
	if opts.Connection.InCluster && !cmd.Flags().Changed("leader-elect") {
		opts.LeaderElection = true
	}
	if opts.Instance, err = os.Hostname(); err != nil { // the pod's name
		return opts, fmt.Errorf("find a name for this manager: %w", err)
	}
	if !opts.Connection.InCluster {
		opts.Instance += fmt.Sprintf("-%d", os.Getpid())
	}
	return opts, nil
}

func newCheckConfig() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration",
		Long: "Read a configuration as the manager does, and print all errors and warnings. The file is an\n" +
			"argument or the value of --config; \"-\" is standard input.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if config != "" {
				args = append(args, config)
			}
			if len(args) != 1 {
				return cli.UsageError{Err: errors.New("check-config requires exactly one file")}
			}
			name, from := args[0], args[0]
			if from == "-" {
				name, from = "standard input", "/dev/stdin"
			}
			text, err := os.ReadFile(from)
			if err != nil {
				return cli.UsageError{Err: fmt.Errorf("read configuration: %w", err)}
			}
			_, warnings, err := manager.Parse(name, text)
			for _, w := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "",
		"configuration `FILE`, instead of the argument; - is standard input")
	cli.CompleteFile(cmd, "config", "yaml", "yml", "json")
	return cmd
}
