-- Rows that never change, except for the named columns.

CREATE OR REPLACE FUNCTION contextopt_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - coalesce(TG_ARGV, '{}') IS DISTINCT FROM to_jsonb(OLD) - coalesce(TG_ARGV, '{}') THEN
        RAISE EXCEPTION '% rows never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER contextopt_assembly_immutable
    BEFORE UPDATE ON contextopt_assembly
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change('task_id', 'is_sent');

CREATE OR REPLACE TRIGGER contextopt_audit_immutable
    BEFORE UPDATE ON contextopt_auditevent
    FOR EACH ROW
    WHEN (current_setting('contextopt.erasing', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION contextopt_refuse_change();

-- Values are erased when what they are about is erased.
CREATE OR REPLACE TRIGGER contextopt_audit_erased
    BEFORE UPDATE ON contextopt_auditevent
    FOR EACH ROW
    WHEN (current_setting('contextopt.erasing', true) = 'on')
    EXECUTE FUNCTION contextopt_refuse_change('before', 'after');

CREATE OR REPLACE TRIGGER contextopt_config_immutable
    BEFORE UPDATE ON contextopt_contextconfig
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change('is_active', 'is_draft');

CREATE OR REPLACE TRIGGER contextopt_phase_immutable
    BEFORE UPDATE ON contextopt_phaseprofile
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change('is_active');

CREATE OR REPLACE TRIGGER contextopt_attempt_immutable
    BEFORE UPDATE ON contextopt_attempt
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change('state', 'assembly_id');

CREATE OR REPLACE TRIGGER contextopt_finding_immutable
    BEFORE UPDATE ON contextopt_finding
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change(
        'decision', 'resolution', 'resolved_by', 'resolved_at', 'tags', 'depends_on',
        'tokens', 'relabelled_by', 'relabelled_at'
    );

CREATE OR REPLACE TRIGGER contextopt_compression_immutable
    BEFORE UPDATE ON contextopt_phasecompression
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change(
        'written', 'written_tokens', 'written_by', 'brief_state', 'brief_note', 'consumed_at',
        'assembly_id'
    );
