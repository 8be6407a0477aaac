package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"runtime/debug"
	"sync"

	"code.cloudfoundry.org/brokerapi/v13"
	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

const brokerModule = "code.cloudfoundry.org/brokerapi/v13"

// moduleVersion returns the version of a module in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// memory is a broker whose service instances are entries of a map: each operation has succeeded at its first poll. Methods that the
// bench does not use are those of a nil broker.
type memory struct {
	domain.ServiceBroker
	all sync.Map // by the id of the service instance
}

func (m *memory) Provision(_ context.Context, id string, details domain.ProvisionDetails, _ bool) (domain.ProvisionedServiceSpec, error) {
	_, there := m.all.LoadOrStore(id, details)
	return domain.ProvisionedServiceSpec{IsAsync: !there, AlreadyExists: there, OperationData: "provision"}, nil
}

func (m *memory) Deprovision(_ context.Context, id string, _ domain.DeprovisionDetails, _ bool) (spec domain.DeprovisionServiceSpec, err error) {
	if _, there := m.all.Load(id); !there {
		return spec, apiresponses.ErrInstanceDoesNotExist
	}
	m.all.Store(id, nil)
	return domain.DeprovisionServiceSpec{IsAsync: true, OperationData: "deprovision"}, nil
}

func (m *memory) LastOperation(_ context.Context, id string, _ domain.PollDetails) (last domain.LastOperation, err error) {
	if _, there := m.all.Load(id); !there {
		return last, apiresponses.ErrInstanceDoesNotExist
	}
	return domain.LastOperation{State: domain.Succeeded, Description: "done"}, nil
}

// Services returns the catalog, in which each provision finds its plan.
func (m *memory) Services(context.Context) ([]domain.Service, error) {
	return []domain.Service{{ID: "nothing", Name: "nothing", Description: "Nothing", Plans: []domain.ServicePlan{{ID: "one", Name: "one", Description: "One"}}}}, nil
}

// brokerMemoryRound measures that broker, without a log.
func brokerMemoryRound(ctx context.Context, o Options) (Round, error) {
	face := httptest.NewServer(brokerapi.New(&memory{}, slog.New(slog.DiscardHandler), brokerapi.BrokerCredentials{Username: brokerUser, Password: brokerPassword}))
	defer face.Close()
	return usePlatforms(ctx, o, face.URL)
}
