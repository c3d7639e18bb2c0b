/**
 * The records of the service in their default shape (specification, section 2): as the emulator stores them.
 * Answers contain them after the transformations of `shapes/`.
 *
 * Invariant: references are ids; rendering expands them.
 */
export interface EmergencyContact {
  readonly first_name?: string
  readonly last_name?: string
  readonly phone_number?: string
  readonly relationship?: string
  readonly address?: string
  readonly address2?: string
  readonly city?: string
  readonly state?: string
  readonly zipcode?: string
}

export interface Tag {
  readonly name: string
  readonly color: string
}

export interface Patient {
  readonly id: string
  readonly external_id: string | null
  readonly first_name: string
  readonly last_name: string
  readonly email: string | null
  readonly phone_number: string | null
  readonly date_birth: string | null
  readonly sex_at_birth: string | null
  readonly provider: string | null
  readonly address: string
  readonly address2: string
  readonly city: string
  readonly state: string
  readonly zipcode: string
  readonly emergency_contact: EmergencyContact | null
  readonly patient_tags: readonly Tag[]
  readonly custom_fields: Readonly<Record<string, string>>
  readonly created_at: string
  readonly updated_at: string
}

export const QUESTION_TYPES = [
  'short_text',
  'long_text',
  'number',
  'date',
  'datetime',
  'time',
  'single_choice',
  'multiple_choice',
  'checkbox',
  'matrix',
  'repeated_block',
  'file',
  'signature',
  'display_only',
] as const

export type QuestionType = (typeof QUESTION_TYPES)[number]

export interface Choice {
  readonly id: string
  readonly text_value: string
  readonly code?: string
  /** What it counts in the score of its questionnaire. */
  readonly points?: number
}

/** A row or a column of a matrix. */
export interface Heading {
  readonly id: string
  readonly text: string
}

export interface Question {
  readonly id: string
  readonly question_type: { readonly question_type: QuestionType; readonly question_subtype: string | null }
  readonly text: string
  readonly help_text: string
  /** Counts through the whole form, from 1. */
  readonly order: number
  readonly page: number
  readonly section: number
  readonly row: number
  readonly choices: readonly Choice[]
  readonly rows?: readonly Heading[]
  readonly columns?: readonly Heading[]
  /** Id of the repeated block or table that this question is a member of. */
  readonly block?: string
  /** Name of the item in an imported questionnaire. */
  readonly link_id?: string
}

export interface Form {
  readonly id: string
  readonly name: string
  readonly text: string
  readonly enabled: boolean
  readonly created_at: string
  readonly updated_at: string
  readonly questions: readonly Question[]
}

export interface Packet {
  readonly id: string
  readonly name: string
  readonly text: string
  /** Ids of the forms, in the order in which they are filled in; a form can occur twice. */
  readonly forms: readonly string[]
  readonly created_at: string
  readonly updated_at: string
}

export interface InputField {
  readonly id: string
  readonly name: string
  readonly label: string
  readonly field_type: 'text' | 'date' | 'checkbox' | 'signature' | 'initials'
  readonly required: boolean
  readonly page: number
}

export interface Document {
  readonly id: string
  readonly name: string
  readonly text: string
  readonly created_at: string
  readonly updated_at: string
  readonly input_fields: readonly InputField[]
}

const MESSAGE_STATUSES = ['pending', 'scheduled', 'sent', 'failed', 'cancelled'] as const
export type MessageStatus = (typeof MESSAGE_STATUSES)[number]

export interface Message {
  readonly id: string
  readonly patient: string
  readonly form: string | null
  readonly packet: string | null
  readonly document: string | null
  readonly message_type: string
  readonly preferred_delivery_method: 'email' | 'sms'
  readonly target_email: string | null
  readonly target_phone_number: string | null
  readonly scheduled_at: string | null
  readonly status: MessageStatus
  readonly content: string
  readonly sent_at: string | null
  readonly created_at: string
  readonly updated_at: string
}

/** The question as answered; later rewording does not change it. */
export interface AskedQuestion {
  readonly id: string
  readonly text: string
}

export interface Answer {
  readonly id: string
  readonly question: AskedQuestion | null
  readonly answer_text: string | null
  readonly answer_choices: readonly { readonly question_choice: Choice }[] | null
}

export interface MatrixCell {
  readonly question: { readonly id: string }
  readonly row: Heading
  readonly column: Heading
  readonly answer_text: string | null
}

export interface ResponseFile {
  readonly id: string
  readonly question: { readonly id: string }
  readonly name: string
  readonly content_type: string
  readonly size: number
}

export interface ESignature {
  readonly id: string
  readonly question: { readonly id: string }
  readonly signed_at: string
  readonly signer_name: string
  /** `inline` is shown as a data URL, `stored` as an address that expires. */
  readonly image: 'inline' | 'stored'
}

/** Answers of every kind. */
export interface Answers {
  readonly answers: readonly Answer[]
  readonly matrix_cells: readonly MatrixCell[]
  readonly files: readonly ResponseFile[]
  readonly e_signatures: readonly ESignature[]
}

export interface Response extends Answers {
  readonly id: string
  readonly patient: string
  readonly form: string | null
  /** Name of the form (or document) when the response was requested. */
  readonly form_name: string | null
  readonly packet: string | null
  readonly document: string | null
  /** The message and packet response that requested it; not shown. */
  readonly message: string | null
  readonly packet_response: string | null
  readonly is_submitted: boolean
  readonly is_skipped: boolean
  readonly is_archived: boolean
  readonly submitted_at: string | null
  readonly created_at: string
  readonly updated_at: string
}

export interface PacketResponse {
  readonly id: string
  readonly packet: string
  readonly is_submitted: boolean
  readonly submitted_at: string | null
  readonly is_archived: boolean
  readonly created_at: string
  readonly updated_at: string
  readonly form_index: number | null
  readonly is_queued: boolean
  /** Ids of the member responses, in the order of the packet's forms. */
  readonly responses: readonly string[]
}
