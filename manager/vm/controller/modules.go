package controller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/vm/objects"
)

// modules caches the contents of ConfigMaps with custom VM types. The store contains only the metadata of
// ConfigMaps. The few ConfigMaps that are used as types are read once per version.
type modules struct {
	mu  sync.Mutex
	all map[types.NamespacedName]moduleSet
}

// maxModuleSets limits the memory that users can make the manager use. Usually there are one or two sets.
const maxModuleSets = 16

type moduleSet struct {
	uid     types.UID
	version string
	texts   map[string]string
}

// modulesOf returns the modules in a ConfigMap, or nil if from is nil.
func (m *modules) modulesOf(ctx context.Context, live client.Reader, from *objects.Metadata) (map[string]string,
	error,
) {
	if from == nil {
		return nil, nil
	}
	m.mu.Lock() // also held during the read: others need the same modules
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
		clear(m.all) // each ConfigMap is limited to 1 MiB
	}
	m.all[key] = moduleSet{from.UID, from.ResourceVersion, read.Data}
	return read.Data, nil
}
