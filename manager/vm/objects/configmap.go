package objects

import (
	"cmp"

	corev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// Keys of the ConfigMap, which are file names in ConfigDir.
const (
	ConfigKey  = "config.yaml"
	loggingKey = "logging.properties"
)

// ConfigMap returns the files that the runner of a VM reads. given is passed to [Config]. class is the record of
// what the VM has taken from its class; a single write stores both.
func ConfigMap(vm *v1.VirtualMachine, s Settings, given Given, class string) (
	*corev1.ConfigMapApplyConfiguration, error,
) {
	text, err := Config(vm, given)
	if err != nil {
		return nil, err
	}
	data := map[string]string{ConfigKey: string(text)}
	if logging := cmp.Or(vm.Spec.LoggingProperties, s.LoggingProperties); logging != "" {
		data[loggingKey] = logging
	}
	files := corev1.ConfigMap(vm.Name, vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(ownerReference(vm)).WithData(data)
	if class != "" {
		files.WithAnnotations(map[string]string{AnnotationClass: class})
	}
	switch record, err := given.Drives.drivesAnnotation(); {
	case err != nil:
		return nil, err
	case record != "":
		files.WithAnnotations(map[string]string{AnnotationDrives: record})
	}
	return stampHash(files, s)
}
