/**
 * The public library: the typed client of the service, the streams, and the types they use.
 *
 * Invariant: exports of this file are stable; everything else may change in any release.
 */
export type {
  Answer,
  Client,
  ClientOptions,
  Meter,
  RequestOptions,
  Streamed,
  StreamOptions,
} from './api/client.ts'
export { openClient } from './api/client.ts'
export { ApiError, MissingSecretError, ShapeError } from './api/errors.ts'
export type { Page, Scan, ScanOutcome } from './api/paging/page.ts'
export {
  Document,
  Form,
  getDocument,
  getForm,
  getPacket,
  listDocuments,
  listForms,
  listPackets,
  Packet,
  Question,
} from './api/resources/forms.ts'
export {
  cancelMessage,
  cancelScheduledMessage,
  changeMessage,
  changeScheduledMessage,
  getMessage,
  listMessages,
  Message,
  type MessageChanges,
  type MessageFields,
  type MessageFilters,
  ScheduledMessage,
  type ScheduledMessageChanges,
  sendMessage,
} from './api/resources/messages.ts'
export {
  changePatient,
  createPatient,
  deletePatient,
  getPatient,
  getPatientUpload,
  listPatients,
  Patient,
  type PatientFields,
  type PatientFilters,
  PatientUpload,
  replacePatient,
  type UploadFile,
  uploadPatients,
} from './api/resources/patients.ts'
export type {
  CallOptions,
  EmptyAnswer,
  FilterOptions,
  ListOptions,
  RecordAnswer,
  TypedPage,
  TypedScan,
} from './api/resources/resource.ts'
export {
  Export,
  ExportContent,
  getResponse,
  listExports,
  listResponses,
  Response,
  type ResponseFilters,
  readExport,
  streamExport,
} from './api/resources/responses.ts'
export type { FieldProblem } from './api/resources/typed.ts'
export {
  CreatedWebhookConfig,
  changeWebhookConfig,
  createWebhookConfig,
  deleteWebhookConfig,
  getWebhookConfig,
  listWebhookConfigs,
  listWebhookDeliveries,
  replaceWebhookConfig,
  testWebhookConfig,
  WebhookConfig,
  type WebhookConfigFields,
  WebhookDelivery,
} from './api/resources/webhooks.ts'
export { type Clock, systemClock } from './core/clock.ts'
export type { StreamName } from './core/envelope.ts'
export { IntakeError, UsageError, type Verdict } from './core/errors.ts'
export { isSigned, SIGNATURE_HEADER, sign } from './core/signature.ts'
export { type Emulator, type EmulatorOptions, startEmulator } from './emulator/server.ts'
export { STREAM_NAMES, STREAMS, streamNamed } from './streams/catalogue.ts'
export type { Child, Column, Stream } from './streams/stream.ts'
