package page

import (
	"nexus/ledger/api"
)

func FieldErr(field, format string, args ...any) error {
	return api.FieldErrorf(field, format, args...)
}
