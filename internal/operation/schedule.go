package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
)

// Operations that read schedules.
var (
	ListSchedules = Operation[Nothing, []service.ScheduleView]{ID: "list-schedules", Method: http.MethodGet,
		Path:    "/api/v1/schedules",
		Summary: "The schedules, with their last and next times"}
)
