package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vmop/manager/disk"
)

// Only errors that a user or administrator must fix are refusals; all others are retried.
func TestRefusalOf(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func(why string) error { return apierrors.NewForbidden(pods, "x", errors.New(why)) }
	for name, c := range map[string]struct {
		err    error
		reason string
		says   string
	}{
		"nothing":             {nil, "", ""},
		"a pod in the way":    {fmt.Errorf("create vd-x: %w", errTaken{}), disk.ReasonPodTaken, "create vd-x"},
		"a quota":             {forbidden("exceeded quota: small"), disk.ReasonQuota, "it is tried again every minute"},
		"a right":             {forbidden("not allowed"), disk.ReasonRefused, "not allowed"},
		"invalid":             {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), disk.ReasonRefused, "invalid"},
		"a conflict":          {apierrors.NewConflict(pods, "x", errors.New("another version")), "", ""},
		"a server that fails": {apierrors.NewInternalError(errors.New("exceeded quota")), "", ""},
		"no connection":       {errors.New("exceeded quota"), "", ""},
	} {
		got := refusalOf(c.err)
		if c.reason == "" {
			require.Nil(t, got, name)
			continue
		}
		require.NotNil(t, got, name)
		require.Equal(t, c.reason, got.Reason, name)
		require.Contains(t, got.Message, c.says, name)
	}
}
