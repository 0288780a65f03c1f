//! A collector on loopback: it takes what is sent by OTLP over HTTP, and keeps it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;

/// What came in, by path.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// It serves until the process ends.
pub(crate) struct Collector {
    address: SocketAddr,
    received: Received,
}

/// A span as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) id: String,
    /// Empty where there is none.
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) is_error: bool,
    pub(crate) service: String,
}

/// A point of a metric: how often it was measured, or what was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) count: u64,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Received::default();
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || drop(take(&connection, &kept)));
            }
        });
        Self { address, received }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that came in, as it came.
    pub(crate) fn received(&self) -> Vec<(String, Vec<u8>)> {
        self.received.lock().unwrap().clone()
    }

    fn at(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received().into_iter().filter(|(of, _)| of == path);
        received.map(|(_, body)| body).collect()
    }

    /// The spans, in the order in which they came.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for body in self.at("/v1/traces") {
            let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.unwrap_or_default();
                let service = texts(&resource.attributes).remove("service.name").unwrap_or_default();
                for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    spans.push(Span {
                        kind: match span.kind() {
                            SpanKind::Client => "client".to_owned(),
                            SpanKind::Internal => "internal".to_owned(),
                            kind => format!("{kind:?}"),
                        },
                        id: hex(&span.span_id),
                        parent: hex(&span.parent_span_id),
                        attributes: texts(&span.attributes),
                        is_error: span.status.is_some_and(|status| status.code() == StatusCode::Error),
                        service: service.clone(),
                        name: span.name,
                    });
                }
            }
        }
        spans
    }

    /// The points of the metrics that came last.
    pub(crate) fn points(&self) -> Vec<Point> {
        let Some(body) = self.at("/v1/metrics").pop() else { return Vec::new() };
        let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let mut points = Vec::new();
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let of = |attributes: &[KeyValue], count: u64| Point {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                attributes: texts(attributes),
                count,
            };
            match &metric.data {
                Some(Data::Histogram(histogram)) => {
                    points
                        .extend(histogram.data_points.iter().map(|point| of(&point.attributes, point.count)));
                }
                Some(Data::Sum(sum)) => {
                    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
                    points.extend(sum.data_points.iter().map(|point| match point.value {
                        Some(Value::AsInt(count)) => of(&point.attributes, u64::try_from(count).unwrap()),
                        _ => of(&point.attributes, 0),
                    }));
                }
                _ => {}
            }
        }
        points
    }
}

/// Takes one request and answers that all is well.
fn take(mut connection: &TcpStream, received: &Received) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    received.lock().unwrap().push((path, body));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    connection.write_all(head.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}
