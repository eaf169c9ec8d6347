package fleet

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var table Table
	require.Empty(t, table.List())
	_, err := table.Get("a")
	require.ErrorIs(t, err, ErrNotFound)

	changed := table.Changed()
	require.Equal(t, changed, table.Changed(), "all wait for the same change")
	b := &VM{Name: "b"}
	table.Put(b)
	<-changed
	table.Put(&VM{Name: "a"})
	before := table.List()
	require.Equal(t, "a", before[0].Name)
	got, err := table.Get("b")
	require.NoError(t, err)
	require.Same(t, b, got)

	changed = table.Changed()
	table.Remove("stranger")
	select {
	case <-changed:
		t.Fatal("nothing has changed")
	default:
	}
	table.Remove("a")
	<-changed
	require.Len(t, table.List(), 1)
	require.Len(t, before, 2, "a list that was taken stays as it is")
}

// A reader that waits for changes never misses the last one.
func TestTableIsConcurrent(t *testing.T) {
	t.Parallel()
	var table Table
	const writers, each = 4, 200
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				table.Put(&VM{Name: fmt.Sprintf("%d-%d", w, i)})
			}
		})
	}
	for {
		changed := table.Changed()
		if len(table.List()) == writers*each {
			break
		}
		<-changed
	}
	all.Wait()
}
