// Package dashboard makes the Grafana dashboard of Redrive: deploy/grafana/redrive.json.
//
// A dashboard of nearly fifty panels cannot be reviewed as JSON, and one that is clicked
// together cannot be reviewed at all. Here a panel is a few lines: what it is called,
// what it says, its queries, its unit. [Build] lays them out; make dashboard writes
// the file, and a test holds that the file is what Build makes.
//
// The types are the part of Grafana's model that is used. The generated SDK for Go
// (grafana-foundation-sdk) was tried: it takes half a minute to build on two cores,
// for the sake of thirty fields.
//
// Every query is written so that it returns something while all is well, if only 0:
// an empty panel must mean that something is missing. A query filters by the
// variables job and dependency where its metric has that label, and takes what is
// recorded for the alerts where there is such a rule, so that both show one number.
package dashboard
