package class

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The class's requirements are added to each of the VM's node terms. An empty term, which matches no node, is dropped,
// but stays if it is the only term.
func TestAlso(t *testing.T) {
	t.Parallel()
	requirement := func(key string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
	}
	term := func(keys ...string) (term corev1.NodeSelectorTerm) {
		for _, key := range keys {
			term.MatchExpressions = append(term.MatchExpressions, requirement(key))
		}
		return term
	}
	for name, c := range map[string]struct {
		of   *corev1.NodeAffinity
		want []corev1.NodeSelectorTerm
	}{
		"no affinity": {nil, []corev1.NodeSelectorTerm{term("class")}},
		"one":         {required(term("a")), []corev1.NodeSelectorTerm{term("a", "class")}},
		"alternatives": {
			required(term("a"), term("b")), []corev1.NodeSelectorTerm{term("a", "class"), term("b", "class")},
		},
		"one is of no use": {required(term(), term("b")), []corev1.NodeSelectorTerm{term("b", "class")}},
		"no node":          {required(term()), []corev1.NodeSelectorTerm{term()}},
	} {
		before := c.of.DeepCopy()
		got := requireAlso(c.of, []corev1.NodeSelectorRequirement{requirement("class")})
		require.Equal(t, required(c.want...), got, name)
		require.Equal(t, before, c.of, name)
	}
}

func required(terms ...corev1.NodeSelectorTerm) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}
}
