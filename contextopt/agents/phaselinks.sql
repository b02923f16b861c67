-- Versions of links never change, except for which one is active.

CREATE OR REPLACE TRIGGER contextopt_phase_link_immutable
    BEFORE UPDATE ON contextopt_phaselink
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change('is_active');
