package vm

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// modules are the contents of ConfigMaps with custom VM types. The store has the metadata
// of ConfigMaps; the content of those few that are used as types is read once for each of
// their versions.
type modules struct {
	mu  sync.Mutex
	all map[types.NamespacedName]moduleSet
}

// maxModuleSets bounds the memory that users can make the manager take: usually there are
// one or two.
const maxModuleSets = 16

type moduleSet struct {
	uid     types.UID
	version string
	texts   map[string]string
}

// of returns the modules in a ConfigMap; none if from is nil.
func (m *modules) of(ctx context.Context, live client.Reader, from *objects.Metadata) (map[string]string, error) {
	if from == nil {
		return nil, nil
	}
	m.mu.Lock() // during the read, too: others need the same
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(from)
	if have, ok := m.all[key]; ok && have.uid == from.UID && have.version == from.ResourceVersion {
		return have.texts, nil
	}
	var read corev1.ConfigMap
	if err := live.Get(ctx, key, &read); err != nil {
		return nil, fmt.Errorf("read the VM types in ConfigMap %s: %w", key.Name, err)
	}
	if len(m.all) >= maxModuleSets {
		clear(m.all) // a ConfigMap has at most 1 MiB
	}
	m.all[key] = moduleSet{from.UID, from.ResourceVersion, read.Data}
	return read.Data, nil
}
