-- Answers to decisions never change. A further one corrects them.

CREATE OR REPLACE TRIGGER contextopt_resolution_immutable
    BEFORE UPDATE ON contextopt_resolution
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change();
