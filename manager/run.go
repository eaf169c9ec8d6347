package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/operation/migration"
	snapshotctl "vmop/manager/snapshot/controller"
	"vmop/manager/store"
	"vmop/manager/vm/controller"
	"vmop/manager/web/serve"
	"vmop/manager/web/stream"
	"vmop/runner/control"
)

// Options configure a manager.
type Options struct {
	// Connection to the API server.
	Connection Connection
	// ConfigFile is read at the start and whenever it changes. If ConfigOptional is true, it may be missing.
	ConfigFile     string
	ConfigOptional bool
	// RunnerImage is the runner's image if neither the VM nor the configuration specifies an image.
	RunnerImage string
	// LeaderElection makes the manager wait until it becomes the leader of its namespace.
	LeaderElection bool
	// Instance is the unique name of this manager, in the lease and in events.
	Instance string
	// HealthAddress is the address of /healthz and /readyz. MetricsAddress is the address of /metrics and
	// /metrics/vms. "" disables them.
	HealthAddress, MetricsAddress string
	// Handler receives log records of all levels. Levels filter them.
	Handler slog.Handler
	Levels  *Levels
	// Version of the program.
	Version string
}

// leaseName is the name of the lease for leader election.
const leaseName = "vm-operator"

// gracePeriod is how long reconciliations may take after the manager was asked to stop. The next manager
// completes the rest.
const gracePeriod = 15 * time.Second

// Run manages VMs until ctx is done, and then returns nil. An invalid configuration causes an error of type
// yamlfile.Faults, or ErrNoNamespace.
func Run(ctx context.Context, opts Options) error {
	log := slog.New(leveled{opts.Handler, &opts.Levels.Manager})
	live, err := newLive(opts, log)
	if err != nil {
		return err
	}
	namespace, err := namespaceOf(live.source.current, namespaceFile)
	if err != nil {
		return err
	}
	libraries := logr.FromSlogHandler(quiet{leveled{opts.Handler, &opts.Levels.Libraries}, ctx.Err})
	klog.SetLogger(libraries)
	ctrllog.SetLogger(libraries)

	api := &reach{log: log}
	mgr, err := newManager(opts, namespace, log, libraries, api)
	if err != nil {
		return err
	}
	if err := knowsKinds(mgr.GetRESTMapper()); err != nil {
		return err
	}
	core, err := client.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	keys := stream.NewKeys(core.Secrets(namespace), core.ConfigMaps(namespace), log)
	types, starts := newTypeChecker(), newStarts()
	vms, err := controller.Add(mgr, controller.Options{
		Namespace: namespace, Instance: opts.Instance, Settings: live.currentSettings, Changed: live.changed,
		Types: types, Kill: keys.Kill, Guest: runners{keys}.guestOf,
		Source: runners{keys}.sourceRunner, Target: runners{keys}.targetRunner, Started: starts.observeStart,
	})
	if err != nil {
		return err
	}
	plans := planner{types, vms.Modules, vms.Resolve}
	pages, err := newPages(opts, mgr, core.Secrets(namespace), namespace, plans, vms, keys, live, log)
	if err != nil {
		return err
	}
	err = errors.Join(addProbes(mgr, vms, pages), mgr.Add(logLeadership(log, opts.Instance)),
		mgr.Add(store.Always(live.followFiles)), mgr.Add(newPresets(mgr, namespace, log)),
		mgr.Add(store.Always(keys.Run)),
		mgr.Add(store.Always(pages.Run)), starts.traceStarts(ctx, mgr, opts.Version, namespace, vms.Store(), log),
		mgr.Add(newMetrics(opts, mgr, vms, live, api, pages, starts, namespace, keys, log)))
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	log.Info("managing VMs", "namespace", namespace, "version", opts.Version,
		"server", opts.Connection.Config.Host, "leaderElection", opts.LeaderElection)
	err = mgr.Start(ctx)
	if ctx.Err() != nil {
		log.Info("stopped", "cause", context.Cause(ctx).Error())
		return nil
	}
	return err
}

// logLeadership returns a function that logs when this manager becomes the leader.
func logLeadership(log *slog.Logger, instance string) ctrl.RunnableFunc {
	return func(context.Context) error {
		log.Info("became the leader", "instance", instance)
		return nil
	}
}

// newScheme returns a scheme with the kinds that VMs consist of.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(kubescheme.AddToScheme(scheme), v1.AddToScheme(scheme))
}

// newManager returns the library's manager, with its client, lease and probes.
func newManager(opts Options, namespace string, log *slog.Logger, libraries logr.Logger,
	api *reach,
) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	rc := rest.CopyConfig(opts.Connection.Config)
	rc.UserAgent = "vmop-manager/" + opts.Version
	rc.QPS = -1 // the API server limits its load itself
	rc.Wrap(api.wrapTransport)
	rc.WarningHandler = &serverWarnings{log: log, logged: map[string]bool{}}
	o := ctrl.Options{
		Scheme: scheme, Logger: libraries,
		Cache:                   cache.Options{ReaderFailOnMissingInformer: true}, // unused
		HealthProbeBindAddress:  opts.HealthAddress,
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // our server also serves this registry
		GracefulShutdownTimeout: new(gracePeriod),
		Controller:              ctrlconfig.Controller{CacheSyncTimeout: 2 * time.Minute},
	}
	if opts.LeaderElection {
		client, err := coordination.NewForConfig(rc)
		if err != nil {
			return nil, fmt.Errorf("set up the manager: %w", err)
		}
		o.LeaderElection, o.LeaderElectionReleaseOnCancel = true, true
		o.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: opts.Instance}, // no events: see the lease
		}
	}
	mgr, err := ctrl.New(rc, o)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", rc.Host, err)
	}
	return mgr, nil
}

// knowsKinds returns an error if the API server lacks the definition of a resource.
func knowsKinds(mapper meta.RESTMapper) error {
	for _, kind := range []string{"VirtualMachine", "VirtualMachineOperation"} {
		_, err := mapper.RESTMapping(schema.GroupKind{Group: v1.GroupName, Kind: kind}, v1.GroupVersion().Version)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the API server has no %ss: "+
				"apply their definition (kubectl apply --server-side -f deploy/crds)", kind)
		}
		if err != nil {
			return fmt.Errorf("ask the API server for %ss: %w", kind, err)
		}
	}
	return nil
}

// addProbes adds /healthz and /readyz. The manager is healthy while it answers. It is ready when everything has
// been listed and the pages are served, both as the leader and in standby.
func addProbes(mgr ctrl.Manager, vms *controller.Controller, pages *serve.Pages) error {
	return errors.Join(
		mgr.AddHealthzCheck("ping", func(*http.Request) error { return nil }),
		mgr.AddReadyzCheck("lists", func(*http.Request) error { return vms.Ready() }),
		mgr.AddReadyzCheck("pages", func(*http.Request) error { return pages.Ready() }))
}

// logWarnings logs warnings about the configuration.
func logWarnings(log *slog.Logger, warnings []yamlfile.Warning) {
	for _, w := range warnings {
		log.Warn("configuration: " + w.String())
	}
}

// runners returns clients of runners, using keys.
type runners struct{ *stream.Keys }

// guestOf returns a client for the guest of a VM, for a snapshot.
func (r runners) guestOf(vm *v1.VirtualMachine, pod *corev1.Pod) (snapshotctl.Guest, error) {
	return r.clientAt(stream.TargetOf(vm, pod.UID, pod.Status.PodIP))
}

// sourceRunner returns a client for the source runner of a migration.
func (r runners) sourceRunner(vm *v1.VirtualMachine, pod *corev1.Pod) (migration.Runner, error) {
	return r.clientAt(stream.TargetOf(vm, pod.UID, pod.Status.PodIP))
}

// targetRunner returns a client for the target runner of a migration.
func (r runners) targetRunner(vm *v1.VirtualMachine, pod *corev1.Pod) (migration.Runner, error) {
	return r.clientAt(stream.ArrivingOf(vm, pod.UID, pod.Status.PodIP))
}

func (r runners) clientAt(at stream.Target, err error) (*control.Client, error) {
	if err != nil {
		return nil, err
	}
	return r.Client(at, ""), nil
}
