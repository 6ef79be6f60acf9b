// A typical webhook in Go: controller-runtime's server, the typed Pod, marshal, diff.
//
// It does what accel-injector does for the recorded TPU Pods, and no more. It exists only for comparison.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type injector struct {
	decoder admission.Decoder
}

func (i *injector) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := i.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	shape, known := shapes[pod.Annotations["accel.io/type"]]
	if !known || len(pod.Spec.Containers) == 0 {
		return admission.Allowed("")
	}
	inject(pod, shape)
	marshalled, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, marshalled)
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 9443, "HTTPS port")
	certs := flag.String("certs", "", "folder with tls.crt and tls.key")
	flag.Parse()

	ctrl.SetLogger(zap.New())
	server := webhook.NewServer(webhook.Options{Host: *host, Port: *port, CertDir: *certs})
	decoder := admission.NewDecoder(clientgoscheme.Scheme)
	server.Register("/mutate", &webhook.Admission{Handler: &injector{decoder: decoder}})
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "cannot serve")
	}
}
