package service_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

func TestPagesOfFlows(t *testing.T) {
	t.Parallel()
	var all []flowview.Flow
	for _, at := range []string{"a/x", "a/y", "a-b/x", "b/x"} {
		namespace, name, _ := strings.Cut(at, "/")
		all = append(all, flowview.Flow{Namespace: namespace, Name: name, Combined: flowview.Combined{Status: "Running"}})
	}
	all[1].Combined.Status = "Failed"
	for want, q := range map[string]service.FlowQuery{
		"a/x a/y a-b/x b/x": {Limit: service.MostFlows},
		"a/x a/y":           {Namespace: "a", Limit: 9},
		"a/x":               {Limit: 1},
		"a/y":               {After: "a/x", Limit: 1},
		"a-b/x b/x":         {After: "a/y", Limit: 9},
		"b/x":               {After: "a/z", Namespace: "b", Limit: 9},
		"":                  {After: "b/x", Limit: 9},
	} {
		page, err := q.Select(all)
		var names []string
		for _, f := range page {
			names = append(names, f.Namespace+"/"+f.Name)
		}
		if diff := cmp.Diff(want, strings.Join(names, " ")); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", q, err, diff)
		}
	}
	if page, err := (service.FlowQuery{Status: "Failed", Limit: 9}).Select(all); err != nil || len(page) != 1 || page[0].Name != "y" {
		t.Errorf("got %+v, %v, want the one that failed", page, err)
	}
	for want, q := range map[string]service.FlowQuery{
		`after "a"`:            {After: "a", Limit: 9},
		"Running Provisioning": {Status: "Faild", Limit: 9},
		"limit -1: want 1":     {Limit: -1},
		"limit 0: want 1":      {},
		"limit 501: want 1":    {Limit: service.MostFlows + 1},
	} {
		if _, err := q.Select(all); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", q, err, want)
		}
	}
}

func TestAServiceWithoutAClusterHasNoFlows(t *testing.T) {
	t.Parallel()
	for name, flows := range map[string]func() (*flowview.Cache, error){
		"none configured": func() (*flowview.Cache, error) { return nil, nil }, "none": nil,
	} {
		s := service.New(nil, nil, service.Options{Flows: flows})
		_, listErr := s.Flows(t.Context(), service.FlowQuery{})
		_, getErr := s.Flow(t.Context(), "shop", "orders")
		for _, err := range []error{listErr, getErr} {
			if !fault.Is(err, fault.NotFound) || !strings.Contains(fault.HintOf(err), "waybill flow list --context") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}
