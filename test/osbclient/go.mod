module github.com/waybill-dev/waybill/test/osbclient

go 1.26.0

require github.com/kubernetes-sigs/go-open-service-broker-client v0.0.0-20200527163240-4406bd2cb6b8

require (
	github.com/go-logr/logr v0.1.0 // indirect
	k8s.io/klog/v2 v2.0.0 // indirect
)
