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
  getDocument,
  getForm,
  getPacket,
  listDocuments,
  listForms,
  listPackets,
} from './api/resources/forms.ts'
export {
  cancelMessage,
  cancelScheduledMessage,
  changeMessage,
  changeScheduledMessage,
  getMessage,
  listMessages,
  type MessageFilters,
  sendMessage,
} from './api/resources/messages.ts'
export {
  changePatient,
  createPatient,
  deletePatient,
  getPatient,
  getPatientUpload,
  listPatients,
  type PatientFilters,
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
  getResponse,
  listExports,
  listResponses,
  type ResponseFilters,
  readExport,
  streamExport,
} from './api/resources/responses.ts'
export type { FieldProblem } from './api/resources/typed.ts'
export {
  changeWebhookConfig,
  createWebhookConfig,
  deleteWebhookConfig,
  getWebhookConfig,
  listWebhookConfigs,
  listWebhookDeliveries,
  replaceWebhookConfig,
  testWebhookConfig,
} from './api/resources/webhooks.ts'
export { Document, Form, Packet, Question } from './api/shapes/form.ts'
export {
  Message,
  type MessageChanges,
  type MessageFields,
  ScheduledMessage,
  type ScheduledMessageChanges,
} from './api/shapes/message.ts'
export { Patient, type PatientFields, PatientUpload } from './api/shapes/patient.ts'
export { Export, ExportContent, Response } from './api/shapes/response.ts'
export {
  CreatedWebhookConfig,
  WebhookConfig,
  type WebhookConfigFields,
  WebhookDelivery,
} from './api/shapes/webhook.ts'
export { type Clock, systemClock } from './core/clock.ts'
export type { StreamName } from './core/envelope.ts'
export { IntakeError, UsageError, type Verdict } from './core/errors.ts'
export { isSigned, SIGNATURE_HEADER, sign } from './core/signature.ts'
export { type Emulator, type EmulatorOptions, startEmulator } from './emulator/server.ts'
export { STREAM_NAMES, STREAMS, streamNamed } from './streams/catalogue.ts'
export type { Child, Column, Stream } from './streams/stream.ts'
